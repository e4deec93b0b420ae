package io.sparkpgoutput.types.numbers

import io.sparkpgoutput.protocol.BigEndian
import io.sparkpgoutput.types.{Ascii, InvalidValue, PowersOfTen, Printer}

/**
 * A decimal number: ±significand × 10^exponent, and the digits that follow a full significand.
 *
 * An instance holds one value after another.
 */
final class DecimalNumber {

  /** Whether the value is finite. If not, `special` is NaN or infinite. */
  var finite = true
  var special = 0.0

  var negative = false

  /** 64 bits without a sign. If more digits follow, these are the first 19. */
  var significand = 0L
  var exponent = 0

  /** The number of digits that follow the significand, up to the last that is not 0. */
  var more = 0

  /** The digits that follow the significand, if there are at most 19. */
  var tail = 0L

  private var following = 0

  def set(negative: Boolean, significand: Long, exponent: Int): DecimalNumber = {
    finite = true
    this.negative = negative
    this.significand = significand
    this.exponent = exponent
    more = 0
    tail = 0
    following = 0
    this
  }

  def setSpecial(value: Double): Unit = {
    set(negative = false, 0, 0)
    finite = false
    special = value
  }

  /** Appends a digit, whose power of ten is one below that of the last digit. */
  def append(digit: Int): Unit =
    if (PowersOfTen.hasDigits(significand, PowersOfTen.Greatest - 1)) {
      significand = significand * 10 + digit
      exponent -= 1
    } else {
      following += 1
      if (digit != 0) {
        if (following <= PowersOfTen.Greatest) {
          tail = tail * PowersOfTen(following - more) + digit
        }
        more = following
      }
    }

  /** Drops so many zeros at the end of the significand. Returns false, without a change, if it has fewer. */
  def dropZeros(count: Int): Boolean = count <= PowersOfTen.Greatest && {
    val divisor = PowersOfTen(count)
    val quotient = java.lang.Long.divideUnsigned(significand, divisor)
    val isExact = quotient * divisor == significand
    if (isExact) { significand = quotient; exponent += count }
    isExact
  }

  /**
   * Returns whether a decimal of so many digits, `scale` of them after the point, can be the number. If so, it
   * is now a multiple of 10^-scale, with the digits that follow the significand.
   */
  def fits(precision: Int, scale: Int): Boolean =
    if (more > 0) integerDigits <= precision - scale && more - exponent <= scale
    else if (significand == 0) {
      exponent = -scale
      true
    } else {
      val shift = scale + exponent
      (shift >= 0 || dropZeros(-shift)) &&
      PowersOfTen.hasDigits(significand, precision - math.max(shift, 0))
    }

  /** The multiple of 10^-scale that a number of at most 19 digits is, if that fits in a Long. */
  def unscaled(scale: Int): Long = {
    val magnitude = significand * PowersOfTen(scale + exponent)
    if (negative) -magnitude else magnitude
  }

  /** The number of digits before the point. It is less than 1 for a number less than 1. */
  def integerDigits: Int = if (significand == 0) 0 else PowersOfTen.digits(significand) + exponent

  /** The number of digits after the point, without trailing zeros. */
  def fractionDigits: Int =
    if (more > 0) math.max(0, more - exponent)
    else if (significand == 0) 0
    else {
      var rest = significand
      var digits = -exponent
      while (digits > 0 && java.lang.Long.remainderUnsigned(rest, 10) == 0) {
        rest = java.lang.Long.divideUnsigned(rest, 10)
        digits -= 1
      }
      math.max(0, digits)
    }
}

/**
 * Reads the values of a type as decimal numbers, and prints binary ones with all their digits. Each number
 * overwrites the last one.
 */
abstract class DecimalReader extends Printer {
  def fromText(bytes: Array[Byte], from: Int, to: Int): DecimalNumber
  def fromBinary(bytes: Array[Byte], from: Int, to: Int): DecimalNumber
}

/**
 * Reads the text of numbers, as `numeric_out`, `float4out` and `float8out` print them: a sign,
 * digits with a point, an exponent; or NaN, Infinity and -Infinity.
 *
 * An instance reads one number after another.
 */
final class DecimalText(typeName: String) {

  /** No number of a server has a greater exponent. */
  final private val MostExponent = 999999

  // A DecimalNumber has room for one more digit, or for eight more, if its significand is below these numbers.
  final private val RoomForOne = 1000000000000000000L
  final private val RoomForEight = 100000000000L

  /** The number that was read last. */
  val number: DecimalNumber = new DecimalNumber

  private def isLess(a: Long, b: Long): Boolean = java.lang.Long.compareUnsigned(a, b) < 0

  def read(bytes: Array[Byte], from: Int, to: Int): DecimalNumber = {
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
    if (at - start == (if (point < 0) 0 else 1)) readSpecial(bytes, from, to)
    else if (at < to) readRest(bytes, at, to, point >= 0)
    number
  }

  private def readSpecial(bytes: Array[Byte], from: Int, to: Int): Unit =
    number.setSpecial(
      if (Ascii.equal(bytes, from, to, "NaN")) Double.NaN
      else if (Ascii.equal(bytes, from, to, "Infinity")) Double.PositiveInfinity
      else if (Ascii.equal(bytes, from, to, "-Infinity")) Double.NegativeInfinity
      else throw malformed
    )

  /** Reads the digits that follow a full significand, and the exponent. */
  private def readRest(bytes: Array[Byte], from: Int, to: Int, afterPoint: Boolean): Unit = {
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
        exponent = readExponent(bytes, at, to)
        at = to
      } else throw malformed
    }
    number.exponent += integerDigits + exponent
  }

  private def readExponent(bytes: Array[Byte], from: Int, to: Int): Int = {
    val signed = from < to && (bytes(from) == '-' || bytes(from) == '+')
    var at = if (signed) from + 1 else from
    if (at == to) throw malformed
    var exponent = 0
    while (at < to) {
      val digit = bytes(at) - '0'
      if (digit < 0 || digit > 9) throw malformed
      exponent = exponent * 10 + digit
      if (exponent > MostExponent) throw malformed
      at += 1
    }
    if (signed && bytes(from) == '-') -exponent else exponent
  }

  private def malformed = InvalidValue.malformed(typeName)
}

/**
 * Reads eight decimal digits of ASCII at once, as a Long whose lowest byte is the first digit. This
 * is faster for the many digits that doubles have after the point. For fewer digits, a loop is as fast.
 *
 * @see Daniel Lemire, "Number Parsing at a Gigabyte per Second", 2021, section 6
 */
object EightDigits {
  final val Power = 100000000L

  /**
   * Returns whether eight bytes are digits. The sum sets the upper bit of a byte above '9', and the
   * difference sets that of a byte below '0'.
   */
  def areAt(bytes: Array[Byte], at: Int): Boolean = {
    val eight = load(bytes, at)
    ((eight + 0x4646464646464646L | eight - 0x3030303030303030L) & 0x8080808080808080L) == 0
  }

  /** Returns the number: first by pairs, then by fours with two multiplications that also add. */
  def value(bytes: Array[Byte], at: Int): Long = {
    val digits = load(bytes, at) - 0x3030303030303030L
    val pairs = digits * 10 + (digits >>> 8)
    val firstAndThird = (pairs & 0x000000ff000000ffL) * (100L + (1000000L << 32))
    val secondAndFourth = (pairs >>> 16 & 0x000000ff000000ffL) * (1L + (10000L << 32))
    firstAndThird + secondAndFourth >>> 32
  }

  private def load(bytes: Array[Byte], at: Int): Long =
    java.lang.Long.reverseBytes(BigEndian.int64(bytes, at))
}
