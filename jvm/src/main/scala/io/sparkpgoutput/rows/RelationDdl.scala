package io.sparkpgoutput.rows

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.{StructField, StructType}

import io.sparkpgoutput.protocol.{RelationColumnSchema, RelationSchema}
import io.sparkpgoutput.types.{ConversionOptions, PgArray, PgType, PgUnknown, TypeModifier}

/** The Spark schema of a table as a Relation message describes it. */
object RelationDdl {

  /** As DDL, for people to read and paste; comments name PostgreSQL's types. */
  def of(relation: InternalRow, options: ConversionOptions): String =
    schema(relation, options) match {
      case none if none.isEmpty => none.sql // STRUCT<>, for no text at all is no DDL
      case columns              => columns.fields.map(_.toDDL).mkString(", ")
    }

  private def schema(relation: InternalRow, options: ConversionOptions): StructType = {
    val columns = relation.getArray(RelationSchema.COLUMNS)
    StructType(Seq.tabulate(columns.numElements()) { index =>
      val column = columns.getStruct(index, RelationColumnSchema.schema.length)
      val modifier = column.getInt(RelationColumnSchema.TYPE_MODIFIER)
      val oid = column.getLong(RelationColumnSchema.TYPE_ID)
      val pgType = options.pgType(oid)
      StructField(
        column.getUTF8String(RelationColumnSchema.NAME).toString,
        pgType.sparkType(modifier)
      ).withComment(comment(pgType, oid, modifier))
    })
  }

  private def comment(pgType: PgType, oid: Long, modifier: Int): String = pgType match {
    case _: PgUnknown => s"type with oid $oid"
    case known =>
      val brackets = if (known.isInstanceOf[PgArray]) "[]" else ""
      known.name.stripSuffix("[]") + TypeModifier.text(known, modifier) + brackets
  }
}
