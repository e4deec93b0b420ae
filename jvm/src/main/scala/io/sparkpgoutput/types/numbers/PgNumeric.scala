package io.sparkpgoutput.types.numbers

import java.math.BigDecimal

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.types.{DataType, DecimalType, StringType}
import org.apache.spark.types.variant.VariantBuilder

import io.sparkpgoutput.protocol.BigEndian
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

  override def conversion(target: DataType, options: ConversionOptions): Option[Conversion] =
    NumberConversion.of(new NumericReader, target)

  override def printer(options: ConversionOptions): Printer = new NumericReader

  override def variantValue(options: ConversionOptions): VariantValue =
    new NumericVariant(new StringConversion(printer(options)))
}

/**
 * Reads numerics. A binary value is int16 number of digits in base 10000, int16 weight of the
 * first digit (its power of 10000), uint16 sign, uint16 number of printed digits after the point,
 * int16 each digit. A server does not send zeros at either end.
 *
 * @see `numeric_send`
 */
final class NumericReader extends DecimalReader {
  final private val Negative = 0x4000
  final private val NaN = 0xc000
  final private val Infinity = 0xd000
  final private val NegativeInfinity = 0xf000
  final private val HeaderSize = 8
  final private val MostScale = 0x3fff

  /** A number with so many decimal digits has room for one more digit in base 10000. */
  final private val Room = PowersOfTen.Greatest - 4

  private val decimal = new DecimalText(PgNumeric.name)
  private val number = decimal.number

  override def fromText(bytes: Array[Byte], from: Int, to: Int): DecimalNumber =
    decimal.read(bytes, from, to)

  override def fromBinary(bytes: Array[Byte], from: Int, to: Int): DecimalNumber = {
    val digits = checkHeader(bytes, from, to)
    val weight = BigEndian.int16(bytes, from + 2).toInt
    var significand = 0L
    var index = 0
    while (index < digits && PowersOfTen.hasDigits(significand, Room)) {
      significand = significand * 10000 + digit(bytes, from, index)
      index += 1
    }
    val exponent = 4 * (weight - index + 1)
    sign(bytes, from) match {
      case 0                => number.set(negative = false, significand, exponent)
      case Negative         => number.set(negative = true, significand, exponent)
      case NaN              => number.setSpecial(Double.NaN)
      case Infinity         => number.setSpecial(Double.PositiveInfinity)
      case NegativeInfinity => number.setSpecial(Double.NegativeInfinity)
      case _                => throw malformed
    }
    if (index < digits) readRest(bytes, from, index, digits)
    else if (number.finite) dropUnprinted(scale(bytes, from))
    number
  }

  /** Reads the digits that follow a full significand. */
  private def readRest(bytes: Array[Byte], from: Int, first: Int, digits: Int): Unit = {
    var index = first
    while (index < digits) {
      val four = digit(bytes, from, index)
      number.append(four / 1000)
      number.append(four / 100 % 10)
      number.append(four / 10 % 10)
      number.append(four % 10)
      index += 1
    }
    if (number.fractionDigits > scale(bytes, from)) throw malformed
  }

  /** Drops the zeros that fill the last digit in base 10000. */
  private def dropUnprinted(scale: Int): Unit = {
    val unprinted = -number.exponent - scale
    if (unprinted > 0 && number.significand != 0 && !number.dropZeros(unprinted)) throw malformed
  }

  override def print(bytes: Array[Byte], from: Int, to: Int, out: TextBuffer): Unit = {
    val digits = checkHeader(bytes, from, to)
    sign(bytes, from) match {
      case 0                => printDigits(bytes, from, digits, out)
      case Negative         => out.add('-'); printDigits(bytes, from, digits, out)
      case NaN              => out.add("NaN")
      case Infinity         => out.add("Infinity")
      case NegativeInfinity => out.add("-Infinity")
      case _                => throw malformed
    }
  }

  private def printDigits(bytes: Array[Byte], from: Int, digits: Int, out: TextBuffer): Unit = {
    val weight = BigEndian.int16(bytes, from + 2).toInt
    if (weight < 0) out.add('0')
    else {
      out.number(digitOrZero(bytes, from, 0, digits).toLong)
      var index = 1
      while (index <= weight) {
        out.padded(digitOrZero(bytes, from, index, digits).toLong, 4)
        index += 1
      }
    }
    var left = scale(bytes, from)
    if (left > 0) out.add('.')
    var index = weight + 1
    while (left > 0) {
      val four = digitOrZero(bytes, from, index, digits)
      if (left >= 4) out.padded(four.toLong, 4)
      else {
        val unprinted = PowersOfTen(4 - left)
        if (four % unprinted != 0) throw malformed
        out.padded(four / unprinted, left)
      }
      left -= 4
      index += 1
    }
  }

  private def digitOrZero(bytes: Array[Byte], from: Int, index: Int, digits: Int): Int =
    if (index >= 0 && index < digits) digit(bytes, from, index) else 0

  private def digit(bytes: Array[Byte], from: Int, index: Int): Int = {
    val value = BigEndian.int16(bytes, from + HeaderSize + 2 * index).toInt
    if (value < 0 || value > 9999) throw malformed
    value
  }

  private def sign(bytes: Array[Byte], from: Int): Int = BigEndian.int16(bytes, from + 4) & 0xffff
  private def scale(bytes: Array[Byte], from: Int): Int = BigEndian.int16(bytes, from + 6) & 0xffff

  /** Returns the number of digits. At most three zeros may follow the printed digits. */
  private def checkHeader(bytes: Array[Byte], from: Int, to: Int): Int = {
    if (to - from < HeaderSize) throw malformed
    val digits = BigEndian.int16(bytes, from).toInt
    if (digits < 0 || to - from != HeaderSize + 2 * digits) throw malformed
    val after = 4 * (digits - 1 - BigEndian.int16(bytes, from + 2))
    val unprinted = after - scale(bytes, from)
    if (digits > 0 && unprinted > 3 || scale(bytes, from) > MostScale) throw malformed
    digits
  }

  private def malformed = InvalidValue.malformed(PgNumeric.name)
}

/**
 * Appends numerics to a VARIANT as decimals with the same number of digits after the point.
 *
 * @param conversion reads numerics as STRING
 */
final class NumericVariant(conversion: Conversion) extends VariantValue(StringType, conversion) {

  /** A sign, a zero, the point, and the digits after it. */
  private val MostCharacters = 3 + DecimalType.MAX_SCALE

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
