package io.sparkpgoutput.types.numbers

import java.math.BigDecimal

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.types.{DecimalType, StringType}
import org.apache.spark.types.variant.VariantBuilder

import io.sparkpgoutput.types.{Conversion, InvalidValue, VariantValue}

/**
 * Appends numerics to a VARIANT as decimals that have as many digits after the point.
 *
 * @param conversion reads numerics as STRING
 */
final class NumericVariant(conversion: Conversion) extends VariantValue(StringType, conversion) {
  import NumericVariant._

  override protected def append(row: UnsafeRow, builder: VariantBuilder): Unit = {
    // A longer text does not fit, and BigDecimal would take long to read it.
    val number = row.getUTF8String(0).substring(0, MostCharacters + 1).toString
    val value =
      try new BigDecimal(number)
      catch { case _: NumberFormatException => throw notDecimal(number) }
    val fits = number.length <= MostCharacters && value.precision <= DecimalType.MAX_PRECISION &&
      value.scale >= 0 && value.scale <= DecimalType.MAX_SCALE
    if (!fits) throw notDecimal(number)
    builder.appendDecimal(value)
  }

  private def notDecimal(number: String) =
    new InvalidValue(s"has $number, which no decimal in VARIANT can be", "use ARRAY<STRING>")
}

private object NumericVariant {

  /** A sign, a zero, the point, and the digits after it. */
  final val MostCharacters = 3 + DecimalType.MAX_SCALE
}
