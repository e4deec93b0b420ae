package io.sparkpgoutput.types.numbers

import io.sparkpgoutput.types.{InvalidValue, PowersOfTen}

/** Reads decimal numbers that are whole and have at most 64 bits. */
final class IntegralReader(reader: DecimalReader) extends LongReader {
  private val number = new DecimalNumber

  override def fromText(bytes: Array[Byte], from: Int, to: Int): Long = {
    reader.fromText(bytes, from, to, number)
    whole()
  }

  override def fromBinary(bytes: Array[Byte], from: Int, to: Int): Long = {
    reader.fromBinary(bytes, from, to, number)
    whole()
  }

  private def whole(): Long = {
    val exponent = number.exponent
    val significand = number.significand
    if (significand == 0 && number.finite) 0
    else if (!number.finite || number.more > 0 || exponent < -PowersOfTen.Greatest) throw refused
    else if (exponent >= 0) {
      if (!PowersOfTen.hasDigits(significand, PowersOfTen.Greatest - exponent)) throw refused
      signed(significand * PowersOfTen(exponent))
    } else {
      val divisor = PowersOfTen(-exponent)
      val quotient = java.lang.Long.divideUnsigned(significand, divisor)
      if (quotient * divisor != significand) throw refused
      signed(quotient)
    }
  }

  private def signed(magnitude: Long): Long = {
    val value = if (number.negative) -magnitude else magnitude
    if (value < 0 != number.negative) throw refused
    value
  }

  private def refused: InvalidValue =
    if (!number.finite) DecimalConversion.notFinite
    else if (number.fractionDigits > 0) {
      val remedy = DecimalConversion.remedy(number.integerDigits, number.fractionDigits)
      new InvalidValue("is not a whole number", remedy)
    } else {
      // 20 digits take all numbers of 64 bits.
      val remedy = DecimalConversion.remedy(math.max(20, number.integerDigits), 0)
      new InvalidValue("is out of range for BIGINT", remedy)
    }
}
