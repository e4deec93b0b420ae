package io.sparkpgoutput.types

import org.apache.spark.sql.types.{DataType, DecimalType, StringType}

/**
 * numeric. Its type modifier is ((precision << 16) | (scale in 11 bits)) + 4; the scale can be
 * negative, or greater than the precision. As DECIMAL where that has enough digits.
 *
 * @see
 *   `numeric_typmod_precision` and `numeric_typmod_scale` in `src/backend/utils/adt/numeric.c`
 */
object PgNumeric extends PgType {
  final private val ModifierOffset = 4

  override def name: String = "numeric"

  override def sparkType(modifier: Int): DataType =
    if (modifier < ModifierOffset) StringType
    else {
      val precision = (modifier - ModifierOffset) >>> 16
      val scale = (modifier - ModifierOffset & 0x7ff ^ 0x400) - 0x400
      val digits = if (scale < 0) precision - scale else math.max(precision, scale)
      if (digits < 1 || digits > DecimalType.MAX_PRECISION) StringType
      else DecimalType(digits, math.max(scale, 0))
    }

  override def conversion(target: DataType, options: ConversionOptions): Option[Conversion] =
    NumericBinary.toNumber(target)

  override def printer(options: ConversionOptions): Printer = NumericBinary.print(_, _, _, _)
}
