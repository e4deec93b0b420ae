package io.sparkpgoutput.types.numbers

import org.apache.spark.sql.types.{Decimal, DecimalType}

import io.sparkpgoutput.types.{Conversion, InvalidValue, PowersOfTen, ValueWriter}

/** Reads decimal numbers as DECIMAL, exactly. */
final class DecimalConversion(reader: DecimalReader, target: DecimalType) extends Conversion {
  private val precision = target.precision
  private val scale = target.scale
  private val isLong = precision <= Decimal.MAX_LONG_DIGITS
  private val number = new DecimalNumber
  private val wide = new UInt128

  override def fromText(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit = {
    reader.fromText(bytes, from, to, number)
    write(out)
  }

  override def fromBinary(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit = {
    reader.fromBinary(bytes, from, to, number)
    write(out)
  }

  private def write(out: ValueWriter): Unit = {
    val significand = number.significand
    val shift = scale + number.exponent
    if (!number.finite) throw DecimalConversion.notFinite
    else if (number.more > 0) writeAllDigits(out)
    else if (significand == 0) write(0, 0, out)
    else if (shift >= 0) {
      if (!PowersOfTen.hasDigits(significand, precision - shift)) throw refused
      write(significand, shift, out)
    } else {
      if (shift < -PowersOfTen.Greatest) throw refused
      val divisor = PowersOfTen(-shift)
      val quotient = java.lang.Long.divideUnsigned(significand, divisor)
      if (quotient * divisor != significand) throw refused
      if (!PowersOfTen.hasDigits(quotient, precision)) throw refused
      write(quotient, 0, out)
    }
  }

  /** Writes a coefficient times a power of ten. The product fits the precision. */
  private def write(coefficient: Long, power: Int, out: ValueWriter): Unit =
    if (isLong) {
      val magnitude = coefficient * PowersOfTen(power)
      out.write(if (number.negative) -magnitude else magnitude)
    } else {
      wide.set(coefficient)
      wide.multiplyByTen(power)
      writeWide(out)
    }

  private def writeAllDigits(out: ValueWriter): Unit = {
    if (number.integerDigits > precision - scale || number.more - number.exponent > scale) {
      throw refused
    }
    wide.set(number.significand)
    wide.multiplyByTen(number.more)
    wide.add(number.tail)
    wide.multiplyByTen(scale + number.exponent - number.more)
    writeWide(out)
  }

  private def writeWide(out: ValueWriter): Unit = {
    val decimal =
      if (wide.isLong) {
        Decimal.createUnsafe(if (number.negative) -wide.toLong else wide.toLong, precision, scale)
      } else {
        val unscaled = wide.toBigInteger(number.negative)
        Decimal(new java.math.BigDecimal(unscaled, scale), precision, scale)
      }
    out.write(decimal, precision, scale)
  }

  private def refused: InvalidValue = {
    val integerDigits = math.max(0, number.integerDigits)
    val fractionDigits = number.fractionDigits
    new InvalidValue(
      if (fractionDigits > scale) s"has more than $scale digits after the point"
      else s"is out of range for ${target.sql}", {
        val asWell = math.max(integerDigits, precision - scale)
        if (asWell + math.max(fractionDigits, scale) > DecimalType.MAX_PRECISION) {
          DecimalConversion.remedy(integerDigits, fractionDigits)
        } else DecimalConversion.remedy(asWell, math.max(fractionDigits, scale))
      }
    )
  }
}

object DecimalConversion {

  /** The Spark type that takes numbers with so many digits before and after the point. */
  def remedy(integerDigits: Int, fractionDigits: Int): String = {
    val precision = math.max(1, math.max(0, integerDigits).toLong + fractionDigits)
    if (precision > DecimalType.MAX_PRECISION) "use STRING"
    else s"use DECIMAL($precision,$fractionDigits) or STRING"
  }

  def notFinite: InvalidValue =
    new InvalidValue("is not a finite number", "use DOUBLE or STRING")
}
