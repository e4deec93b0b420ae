package io.sparkpgoutput.types

/** The powers of ten that fit in 64 bits without a sign: 10^0 to 10^19. */
object PowersOfTen {
  final val Greatest = 19

  private val powers = Array.iterate(1L, Greatest + 1)(_ * 10)

  /** Returns the power, a number without a sign. The exponent is 0 to 19. */
  def apply(exponent: Int): Long = powers(exponent)

  /**
   * Tells whether a number without a sign has at most so many digits. Only 0 has less than one digit.
   */
  def hasDigits(number: Long, digits: Int): Boolean =
    if (digits > Greatest) true
    else if (digits <= 0) number == 0
    else java.lang.Long.compareUnsigned(number, powers(digits)) < 0

  /** Returns the number of digits of a number without a sign. 0 has no digit. */
  def digits(number: Long): Int = {
    // 1233 / 2^12 is the decimal logarithm of two. The result is exact or one too small.
    val least = (64 - java.lang.Long.numberOfLeadingZeros(number)) * 1233 >> 12
    if (hasDigits(number, least)) least else least + 1
  }
}
