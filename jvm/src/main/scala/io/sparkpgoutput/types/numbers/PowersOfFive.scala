package io.sparkpgoutput.types.numbers

import java.math.BigInteger

/**
 * The first 128 bits of the powers of five, which turn decimal significands into binary ones. They
 * are rounded down, but up for negative exponents, because these powers have no last digit.
 *
 * @see Daniel Lemire, "Number Parsing at a Gigabyte per Second", 2021, section 5
 */
object PowersOfFive {

  /** With a lesser power of ten, 64 bits are less than half the least double. */
  final val Least = -342

  /** With a greater power of ten, they are greater than the greatest double. */
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
      // 2^(bitLength + 127) / 5^n has 128 bits, because 5^n is not a power of two unless it is 1.
      BigInteger.ONE.shiftLeft(power.bitLength + 127).divide(power).add(BigInteger.ONE)
    }
  }
}
