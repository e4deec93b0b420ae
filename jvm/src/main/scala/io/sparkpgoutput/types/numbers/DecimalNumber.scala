package io.sparkpgoutput.types.numbers

import io.sparkpgoutput.types.PowersOfTen

/**
 * A number in decimal as it was read: ±significand × 10^exponent, and the digits that follow where
 * the significand is full. Used again for one value after another.
 */
final class DecimalNumber {

  /** Whether it is a number; where not, `special` is NaN or infinite. */
  var finite = true
  var special = 0.0

  var negative = false

  /** 64 bits without a sign. Where digits follow, it is the first 19 of the number. */
  var significand = 0L
  var exponent = 0

  /** How many digits follow the significand's, up to the last that is not 0. */
  var more = 0

  /** The digits that follow, if they are at most 19. */
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

  /** Adds a digit behind the last, where the exponent is that of the digit before. */
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

  /** The digits before the point; less than 1 where it is less than 1. */
  def integerDigits: Int = if (significand == 0) 0 else PowersOfTen.digits(significand) + exponent

  /** The digits after the point, without zeros at the end. */
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

  /** The significand has as many digits before others follow. */
  final val MostDigits = 19
}
