package io.sparkpgoutput.types

import java.math.BigDecimal

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter
import org.apache.spark.sql.types._
import org.apache.spark.types.variant.{Variant, VariantBuilder, VariantSizeLimitException}
import org.apache.spark.unsafe.types.{UTF8String, VariantVal}

/**
 * Reads values of one type into a VARIANT: as the Spark type that they have by default, json and
 * arrays as VARIANT, numeric as DECIMAL, hstore as STRING.
 */
final class VariantValue(pgType: PgType, options: ConversionOptions) {
  private val sparkType: DataType = pgType match {
    case _: PgJson | _: PgArray => VariantType
    case PgHstore               => StringType
    case known                  => known.sparkType(-1)
  }
  private val conversion: Conversion = pgType.to(sparkType, options).get
  private val writer = new UnsafeRowWriter(1)
  private val slot = new ValueWriter(writer, sparkType, 0)

  /** Appends the value that `read` reads by a conversion to a slot. */
  def append(read: (Conversion, ValueWriter) => Unit, builder: VariantBuilder): Unit = {
    writer.reset()
    writer.zeroOutNullBytes()
    read(conversion, slot)
    append(writer.getRow, builder)
  }

  private def append(row: UnsafeRow, builder: VariantBuilder): Unit =
    if (row.isNullAt(0)) builder.appendNull()
    else
      sparkType match {
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
        case _ if pgType eq PgNumeric =>
          builder.appendDecimal(exact(row.getUTF8String(0)))
        case _: StringType => builder.appendString(row.getUTF8String(0).toString)
        case other => throw new IllegalStateException(s"${pgType.name} as ${other.sql} in VARIANT")
      }

  /** A number that a decimal of VARIANT's holds, with as many digits after the point. */
  private def exact(text: UTF8String): BigDecimal = {
    // Longer ones do not fit, and would take BigDecimal long.
    val number = text.substring(0, VariantValue.MostCharacters + 1).toString
    val value =
      try new BigDecimal(number)
      catch { case _: NumberFormatException => throw notDecimal(number) }
    val fits = number.length <= VariantValue.MostCharacters &&
      value.precision <= DecimalType.MAX_PRECISION &&
      value.scale >= 0 && value.scale <= DecimalType.MAX_SCALE
    if (!fits) throw notDecimal(number)
    value
  }

  private def notDecimal(number: String) =
    new InvalidValue(s"has $number, which no decimal in VARIANT can be", "use ARRAY<STRING>")
}

object VariantValue {

  /** What was built. */
  def of(builder: VariantBuilder): VariantVal =
    try {
      val variant = builder.result()
      new VariantVal(variant.getValue, variant.getMetadata)
    } catch { case _: VariantSizeLimitException => throw tooLarge }

  def tooLarge: InvalidValue =
    new InvalidValue("is too large for VARIANT", JsonConversion.Remedy)

  /** A sign, a zero, the point, and the digits after it. */
  final private val MostCharacters = 3 + DecimalType.MAX_SCALE
}
