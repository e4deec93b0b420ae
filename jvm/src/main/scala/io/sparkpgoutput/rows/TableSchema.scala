package io.sparkpgoutput.rows

import java.util.Locale

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types._

import io.sparkpgoutput.protocol.{RelationColumnSchema, RelationSchema}
import io.sparkpgoutput.types.TypeLookup

/** The Spark schema of a table, as a Relation message defines it. */
object TableSchema {

  /**
   * Returns whether a relation has columns and each of them has a name. This is so for each decoded relation, but
   * a query can make the struct in other ways.
   */
  def isComplete(relation: InternalRow): Boolean =
    !relation.isNullAt(RelationSchema.COLUMNS) && columns(relation).forall(column =>
      column != null && !column.isNullAt(RelationColumnSchema.NAME)
    )

  private def columns(relation: InternalRow): Seq[InternalRow] =
    relation.getArray(RelationSchema.COLUMNS).toSeq[InternalRow](RelationColumnSchema.schema)

  /**
   * Finds the columns with their default types. Each comment names the column's type in PostgreSQL.
   *
   * @param relation the struct `relation` of a decoded message
   */
  def of(relation: InternalRow, types: TypeLookup): StructType =
    StructType(columns(relation).map { column =>
      val modifier = column.getInt(RelationColumnSchema.TYPE_MODIFIER)
      val pgType = types.byOid(column.getLong(RelationColumnSchema.TYPE_ID))
      StructField(
        column.getUTF8String(RelationColumnSchema.NAME).toString,
        pgType.sparkType(modifier)
      ).withComment(pgType.describe(modifier))
    })

  /** Formats a schema as DDL. A schema without columns is `STRUCT<>`, because DDL cannot be empty. */
  def ddl(schema: StructType): String =
    if (schema.isEmpty) schema.sql else schema.fields.map(_.toDDL).mkString(", ")
}

/** Merges the schemas that a table had over time into one that takes the rows of all of them. */
object MergedSchema {

  /** The digits of the greatest value. */
  private val digitsOf: Map[DataType, Int] =
    Map(ByteType -> 3, ShortType -> 5, IntegerType -> 10, LongType -> 19)

  /**
   * Returns all columns, in the order in which they first appear.
   *
   * @param schemas the table's schemas, in the order of its Relation messages
   * @param caseSensitive whether names that differ only in case are two columns
   */
  def of(schemas: Seq[StructType], caseSensitive: Boolean): StructType = {
    def key(name: String) = if (caseSensitive) name else name.toLowerCase(Locale.ROOT)
    val columns = mutable.LinkedHashMap.empty[String, StructField]
    schemas.flatten.foreach { field =>
      columns.updateWith(key(field.name))(before => Some(before.fold(field)(merged(_, field))))
    }
    StructType(columns.values.toSeq)
  }

  private def merged(one: StructField, other: StructField): StructField =
    if (one.dataType == other.dataType) other.copy(name = one.name)
    else StructField(one.name, commonType(one.dataType, other.dataType))

  /** Returns a type of number that takes both exactly, or else STRING, which takes every value. */
  private def commonType(one: DataType, other: DataType): DataType =
    (digitsOf.get(one), digitsOf.get(other)) match {
      case _ if Set(one, other) == Set[DataType](FloatType, DoubleType) => DoubleType
      case (Some(digits), Some(others)) => if (digits > others) one else other
      case _ => asDecimal(one).zip(asDecimal(other)).flatMap(commonDecimal).getOrElse(StringType)
    }

  private def commonDecimal(both: (DecimalType, DecimalType)): Option[DecimalType] = {
    val (one, other) = both
    val scale = one.scale.max(other.scale)
    val digits = (one.precision - one.scale).max(other.precision - other.scale) + scale
    Option.when(digits <= DecimalType.MAX_PRECISION)(DecimalType(digits, scale))
  }

  private def asDecimal(dataType: DataType): Option[DecimalType] = dataType match {
    case decimal: DecimalType => Some(decimal)
    case other                => digitsOf.get(other).map(DecimalType(_, 0))
  }
}
