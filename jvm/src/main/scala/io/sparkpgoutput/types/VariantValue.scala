package io.sparkpgoutput.types

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter
import org.apache.spark.sql.types._
import org.apache.spark.types.variant.{Variant, VariantBuilder, VariantSizeLimitException}
import org.apache.spark.unsafe.types.VariantVal

/**
 * Appends values of one type to a VARIANT. Not thread-safe.
 *
 * @param sparkType the Spark type that values are read as first
 */
class VariantValue(sparkType: DataType, conversion: Conversion) {
  private val writer = new UnsafeRowWriter(1)
  private val slot = new ValueWriter(writer, sparkType, 0)

  /** Appends the value that `read` writes by the conversion. */
  final def append(read: (Conversion, ValueWriter) => Unit, builder: VariantBuilder): Unit = {
    writer.reset()
    writer.zeroOutNullBytes()
    read(conversion, slot)
    val row = writer.getRow
    if (row.isNullAt(0)) builder.appendNull() else append(row, builder)
  }

  /** Appends the row's only member, which is not NULL. */
  protected def append(row: UnsafeRow, builder: VariantBuilder): Unit = sparkType match {
    case BooleanType      => builder.appendBoolean(row.getBoolean(0))
    case ShortType        => builder.appendLong(row.getShort(0).toLong)
    case IntegerType      => builder.appendLong(row.getInt(0).toLong)
    case LongType         => builder.appendLong(row.getLong(0))
    case FloatType        => builder.appendFloat(row.getFloat(0))
    case DoubleType       => builder.appendDouble(row.getDouble(0))
    case DateType         => builder.appendDate(row.getInt(0))
    case TimestampType    => builder.appendTimestamp(row.getLong(0))
    case TimestampNTZType => builder.appendTimestampNtz(row.getLong(0))
    case BinaryType       => builder.appendBinary(row.getBinary(0))
    case VariantType =>
      val nested = row.getVariant(0)
      builder.appendVariant(new Variant(nested.getValue, nested.getMetadata))
    case decimal: DecimalType =>
      val value = row.getDecimal(0, decimal.precision, decimal.scale)
      builder.appendDecimal(value.toJavaBigDecimal)
    case _: StringType => builder.appendString(row.getUTF8String(0).toString)
    case other         => throw new IllegalStateException(s"${other.sql} in VARIANT")
  }
}

object VariantValue {

  /** The VARIANT that was built. */
  def of(builder: VariantBuilder): VariantVal =
    try {
      val variant = builder.result()
      new VariantVal(variant.getValue, variant.getMetadata)
    } catch { case _: VariantSizeLimitException => throw tooLarge }

  def tooLarge: InvalidValue = new InvalidValue("is too large for VARIANT", "use STRING")
}
