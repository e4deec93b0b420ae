package io.sparkpgoutput.rows

import java.util.Locale

import scala.collection.mutable

import org.apache.spark.sql.types._

/** Merges the schemas that a table had over time into one that takes the rows of all of them. */
object MergedSchema {
  private val MaxDigits = DecimalType.MAX_PRECISION

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
    Option.when(digits <= MaxDigits)(DecimalType(digits, scale))
  }

  private def asDecimal(dataType: DataType): Option[DecimalType] = dataType match {
    case decimal: DecimalType => Some(decimal)
    case other                => digitsOf.get(other).map(DecimalType(_, 0))
  }
}
