package io.sparkpgoutput.types.numbers

import java.math.BigInteger

/**
 * The powers of five by which decimal significands become binary ones: their first 128 bits,
 * rounded down, and for negative exponents, which have no end, rounded up.
 *
 * @see
 *   Daniel Lemire, "Number Parsing at a Gigabyte per Second", 2021, section 5
 */
object PowersOfFive {

  /** With less, 64 bits times the power of ten are less than half the least double. */
  final val Least = -342

  /** With more, they are greater than the greatest. */
  final val Greatest = 308

  private val powers = Array.tabulate(Greatest - Least + 1)(index => first128Bits(Least + index))
  private val highs = powers.map(_.shiftRight(64).longValue)
  private val lows = powers.map(_.longValue)

  def high(exponent: Int): Long = highs(exponent - Least)
  def low(exponent: Int): Long = lows(exponent - Least)

  private def first128Bits(exponent: Int): BigInteger = {
    val power = BigInteger.valueOf(5).pow(exponent.abs)
    if (exponent >= 0) power.shiftLeft(128).shiftRight(power.bitLength)
    else {
      // 2^(bitLength + 127) / 5^n has 128 bits: 5^n is never a power of two but for 1.
      BigInteger.ONE.shiftLeft(power.bitLength + 127).divide(power).add(BigInteger.ONE)
    }
  }
}
