package io.sparkpgoutput.types.numbers

import io.sparkpgoutput.types.{Ascii, InvalidValue}

/**
 * Reads the text of numbers, as `numeric_out`, `float4out` and `float8out` print them: a sign,
 * digits with a point, an exponent; or NaN, Infinity and -Infinity.
 */
object DecimalText {

  /** No number of a server has a greater exponent. */
  final private val MostExponent = 999999

  // A smaller significand has room for so many digits in a DecimalNumber.
  final private val RoomForOne = 1000000000000000000L
  final private val RoomForEight = 100000000000L

  private def isLess(a: Long, b: Long): Boolean = java.lang.Long.compareUnsigned(a, b) < 0

  def read(
      typeName: String,
      bytes: Array[Byte],
      from: Int,
      to: Int,
      number: DecimalNumber
  ): Unit = {
    val negative = from < to && bytes(from) == '-'
    val start = if (negative) from + 1 else from
    var significand = 0L
    var point = -1
    var at = start
    var going = true
    while (going && at < to) {
      val digit = bytes(at) - '0'
      if (digit >= 0 && digit <= 9 && isLess(significand, RoomForOne)) {
        significand = significand * 10 + digit
        at += 1
      } else if (digit == '.' - '0' && point < 0) {
        point = at
        at += 1
        while (to - at >= 8 && EightDigits.areAt(bytes, at) && isLess(significand, RoomForEight)) {
          significand = significand * EightDigits.Power + EightDigits.value(bytes, at)
          at += 8
        }
      } else going = false
    }
    number.set(negative, significand, if (point < 0) 0 else point + 1 - at)
    if (at - start == (if (point < 0) 0 else 1)) readSpecial(typeName, bytes, from, to, number)
    else if (at < to) readRest(typeName, bytes, at, to, point >= 0, number)
  }

  private def readSpecial(
      typeName: String,
      bytes: Array[Byte],
      from: Int,
      to: Int,
      number: DecimalNumber
  ): Unit =
    number.setSpecial(
      if (Ascii.equal(bytes, from, to, "NaN")) Double.NaN
      else if (Ascii.equal(bytes, from, to, "Infinity")) Double.PositiveInfinity
      else if (Ascii.equal(bytes, from, to, "-Infinity")) Double.NegativeInfinity
      else throw InvalidValue.malformed(typeName)
    )

  /** Reads the digits that follow a full significand, and the exponent. */
  private def readRest(
      typeName: String,
      bytes: Array[Byte],
      from: Int,
      to: Int,
      afterPoint: Boolean,
      number: DecimalNumber
  ): Unit = {
    var fraction = afterPoint
    var integerDigits = 0
    var exponent = 0
    var at = from
    while (at < to) {
      val byte = bytes(at)
      at += 1
      if (byte >= '0' && byte <= '9') {
        number.append(byte - '0')
        if (!fraction) integerDigits += 1
      } else if (byte == '.' && !fraction) fraction = true
      else if (byte == 'e' || byte == 'E') {
        exponent = readExponent(typeName, bytes, at, to)
        at = to
      } else throw InvalidValue.malformed(typeName)
    }
    number.exponent += integerDigits + exponent
  }

  private def readExponent(typeName: String, bytes: Array[Byte], from: Int, to: Int): Int = {
    val signed = from < to && (bytes(from) == '-' || bytes(from) == '+')
    var at = if (signed) from + 1 else from
    if (at == to) throw InvalidValue.malformed(typeName)
    var exponent = 0
    while (at < to) {
      val digit = bytes(at) - '0'
      if (digit < 0 || digit > 9) throw InvalidValue.malformed(typeName)
      exponent = exponent * 10 + digit
      if (exponent > MostExponent) throw InvalidValue.malformed(typeName)
      at += 1
    }
    if (signed && bytes(from) == '-') -exponent else exponent
  }
}
