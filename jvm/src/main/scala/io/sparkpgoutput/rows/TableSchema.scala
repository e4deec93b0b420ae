package io.sparkpgoutput.rows

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.{StructField, StructType}

import io.sparkpgoutput.protocol.{RelationColumnSchema, RelationSchema}
import io.sparkpgoutput.types.TypeLookup

/** The Spark schema of a table, as a Relation message defines it. */
object TableSchema {

  /**
   * Tells whether a relation has columns and each of them has a name. A decoded one always has, but
   * a query can make the struct in other ways.
   */
  def isComplete(relation: InternalRow): Boolean =
    !relation.isNullAt(RelationSchema.COLUMNS) && {
      val columns = relation.getArray(RelationSchema.COLUMNS)
      (0 until columns.numElements()).forall { index =>
        !columns.isNullAt(index) &&
        !columns
          .getStruct(index, RelationColumnSchema.schema.length)
          .isNullAt(RelationColumnSchema.NAME)
      }
    }

  /**
   * Finds the columns with their default types. Each comment names the column's type in PostgreSQL.
   *
   * @param relation the struct `relation` of a decoded message
   */
  def of(relation: InternalRow, types: TypeLookup): StructType = {
    val columns = relation.getArray(RelationSchema.COLUMNS)
    StructType(Seq.tabulate(columns.numElements()) { index =>
      val column = columns.getStruct(index, RelationColumnSchema.schema.length)
      val modifier = column.getInt(RelationColumnSchema.TYPE_MODIFIER)
      val pgType = types.byOid(column.getLong(RelationColumnSchema.TYPE_ID))
      StructField(
        column.getUTF8String(RelationColumnSchema.NAME).toString,
        pgType.sparkType(modifier)
      ).withComment(pgType.describe(modifier))
    })
  }

  /** Formats a schema as DDL. A schema without columns is `STRUCT<>`, because DDL is not empty. */
  def ddl(schema: StructType): String =
    if (schema.isEmpty) schema.sql else schema.fields.map(_.toDDL).mkString(", ")
}
