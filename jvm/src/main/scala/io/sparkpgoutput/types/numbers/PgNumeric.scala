package io.sparkpgoutput.types.numbers

import org.apache.spark.sql.types.{DataType, DecimalType, StringType}

import io.sparkpgoutput.types._

/**
 * numeric. By default it is DECIMAL, or STRING if DECIMAL has too few digits. The type modifier is
 * ((precision << 16) | (scale in 11 bits)) + 4. The scale can be negative, or greater than the
 * precision.
 *
 * @see `numeric_typmod_precision` and `numeric_typmod_scale` in `src/backend/utils/adt/numeric.c`
 */
object PgNumeric extends PgType("numeric") {
  final private val ModifierOffset = 4

  private def precision(modifier: Int): Int = (modifier - ModifierOffset) >>> 16
  private def scale(modifier: Int): Int = (modifier - ModifierOffset & 0x7ff ^ 0x400) - 0x400

  override def modifierText(modifier: Int): String =
    if (modifier < ModifierOffset) "" else s"(${precision(modifier)},${scale(modifier)})"

  override def sparkType(modifier: Int): DataType =
    if (modifier < ModifierOffset) StringType
    else {
      val precision = this.precision(modifier)
      val scale = this.scale(modifier)
      val digits = if (scale < 0) precision - scale else math.max(precision, scale)
      if (digits < 1 || digits > DecimalType.MAX_PRECISION) StringType
      else DecimalType(digits, math.max(scale, 0))
    }

  override def readsUnknown(target: DataType): Boolean = target.isInstanceOf[DecimalType]

  override def conversion(target: DataType, options: ConversionOptions): Option[Conversion] =
    NumberConversion.of(NumericBinary, target)

  override def printer(options: ConversionOptions): Printer = NumericBinary.print(_, _, _, _)

  override def variantValue(options: ConversionOptions): VariantValue =
    new NumericVariant(new StringConversion(printer(options)))
}
