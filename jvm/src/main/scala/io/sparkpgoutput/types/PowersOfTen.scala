package io.sparkpgoutput.types

/** The powers of ten that have 64 bits without a sign: 10^0 to 10^19. */
object PowersOfTen {
  final val Greatest = 19

  private val powers = Array.iterate(1L, Greatest + 1)(_ * 10)

  /** The power, without a sign; the exponent is 0 to 19. */
  def apply(exponent: Int): Long = powers(exponent)

  /**
   * Whether a number without a sign has at most so many digits; with less than 1, whether it is 0.
   */
  def hasDigits(number: Long, digits: Int): Boolean =
    if (digits > Greatest) true
    else if (digits <= 0) number == 0
    else java.lang.Long.compareUnsigned(number, powers(digits)) < 0

  /** How many digits a number without a sign has; 0 has none. */
  def digits(number: Long): Int = {
    // 1233 / 2^12 is the decimal logarithm of two: as many digits, or one more.
    val least = (64 - java.lang.Long.numberOfLeadingZeros(number)) * 1233 >> 12
    if (hasDigits(number, least)) least else least + 1
  }
}
