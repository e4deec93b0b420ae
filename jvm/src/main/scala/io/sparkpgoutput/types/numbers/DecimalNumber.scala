package io.sparkpgoutput.types.numbers

import io.sparkpgoutput.types.PowersOfTen

/**
 * A decimal number: ±significand × 10^exponent, and the digits that follow a full significand.
 *
 * An instance holds one value after another.
 */
final class DecimalNumber {

  /** Tells whether the value is finite. If not, `special` is NaN or infinite. */
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

  def set(negative: Boolean, significand: Long, exponent: Int): Unit = {
    finite = true
    this.negative = negative
    this.significand = significand
    this.exponent = exponent
    more = 0
    tail = 0
    following = 0
  }

  def setSpecial(value: Double): Unit = {
    set(negative = false, 0, 0)
    finite = false
    special = value
  }

  /** Appends a digit. The exponent is the one of the digit before. */
  def append(digit: Int): Unit =
    if (PowersOfTen.hasDigits(significand, DecimalNumber.MostDigits - 1)) {
      significand = significand * 10 + digit
      exponent -= 1
    } else {
      following += 1
      if (digit != 0) {
        if (following <= DecimalNumber.MostDigits) {
          tail = tail * PowersOfTen(following - more) + digit
        }
        more = following
      }
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

object DecimalNumber {

  /** The digits of a full significand. */
  final val MostDigits = 19
}
