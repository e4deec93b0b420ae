package io.sparkpgoutput.types.numbers

import java.math.BigInteger

import io.sparkpgoutput.types.{PowersOfTen, TextBuffer}

/**
 * Prints a binary number of IEEE 754 as `float8out` and `float4out` do: the shortest decimal number
 * to which no other binary number is as near. If several are the shortest, it is the nearest.
 *
 * Java's `Double.toString` has too many digits before Java 19 (JDK-4511638). Jackson's writer prints
 * at least two digits, and takes a decimal number that is halfway to the next binary one.
 *
 * @see Raffaello Giulietti, "The Schubfach way to render doubles", 2020; the names are the paper's
 * @see `src/common/d2s.c` and `f2s.c`: STRICTLY_SHORTEST, `to_chars`
 */
object ShortestDecimal {
  final private val Mask63 = Long.MaxValue

  /** The exponents k for which the table has 10^-k: those of all doubles. */
  final private val LeastK = -324
  final private val GreatestK = 292

  /** 10^-k as 126 bits, plus one, in an upper and a lower half of 63 bits. */
  private val g = Array.tabulate(GreatestK - LeastK + 1)(index => powerOfTen(-LeastK - index))
  private val g1 = g.map(_.shiftRight(63).longValue)
  private val g0 = g.map(_.longValue & Mask63)

  def print(format: IeeeFormat, bits: Long, out: TextBuffer): Unit = {
    val negative = (bits >>> (format.mantissaBits + format.exponentBits)) != 0
    val exponent = (bits >>> format.mantissaBits).toInt & format.specialExponent
    val mantissa = bits & ((1L << format.mantissaBits) - 1)
    if (exponent == format.specialExponent && mantissa != 0) out.add("NaN")
    else {
      if (negative) out.add('-')
      if (exponent == format.specialExponent) out.add("Infinity")
      else if (exponent == 0 && mantissa == 0) out.add('0')
      else {
        // The number is c * 2^q.
        val q = math.max(exponent, 1) - format.bias - format.mantissaBits
        val c = if (exponent == 0) mantissa else mantissa | (1L << format.mantissaBits)
        // Below a power of two, the next number is half as far away as above.
        printShortest(format, q, c, mantissa == 0 && exponent > 1, out)
      }
    }
  }

  private def printShortest(
      format: IeeeFormat,
      q: Int,
      c: Long,
      irregular: Boolean,
      out: TextBuffer
  ): Unit = {
    val k = if (irregular) floorLog10ThreeQuartersPow2(q) else floorLog10Pow2(q)
    val h = q + floorLog2Pow10(-k) + 2
    val vb = scaled(k, c << 2 << h)
    val vbl = scaled(k, (c << 2) - (if (irregular) 1 else 2) << h)
    val vbr = scaled(k, (c << 2) + 2 << h)
    // Four times the number and its bounds, in units of 10^k. The number is between s and s + 1.
    val s = vb >> 2
    val tens = s / 10 * 10
    val lowerTens = vbl < (tens << 2)
    val upperTens = (tens + 10 << 2) < vbr
    if (s >= 10 && lowerTens != upperTens)
      layOut(format, if (lowerTens) tens else tens + 10, k, out)
    else {
      val lower = vbl < (s << 2)
      val upper = (s + 1 << 2) < vbr
      val distance = vb - (s + s + 1 << 1)
      val nearestIsLower = distance < 0 || distance == 0 && (s & 1) == 0
      layOut(format, if (if (lower != upper) lower else nearestIsLower) s else s + 1, k, out)
    }
  }

  /** Prints digits times 10^exponent as `to_chars` does. */
  private def layOut(
      format: IeeeFormat,
      allDigits: Long,
      allExponent: Int,
      out: TextBuffer
  ): Unit = {
    var digits = allDigits
    var exponent = allExponent
    while (digits % 10 == 0) { digits /= 10; exponent += 1 }
    val size = PowersOfTen.digits(digits)
    val scientific = exponent + size - 1 // the exponent if one digit is before the point
    val plainBelow = if (format.mantissaBits > 23) 15 else 6
    if (scientific < -4 || scientific >= plainBelow) {
      pointed(digits, size - 1, out)
      out.add('e')
      out.add(if (scientific < 0) '-' else '+')
      out.padded(math.abs(scientific).toLong, 2)
    } else if (scientific < 0) {
      out.add("0.")
      out.padded(digits, -exponent)
    } else if (exponent >= 0) out.number(digits * PowersOfTen(exponent))
    else pointed(digits, -exponent, out)
  }

  /** Prints digits with so many of them after the point. */
  private def pointed(digits: Long, scale: Int, out: TextBuffer): Unit = {
    out.number(digits / PowersOfTen(scale))
    if (scale > 0) {
      out.add('.')
      out.padded(digits % PowersOfTen(scale), scale)
    }
  }

  /** Multiplies by the table's 10^-k and rounds to odd: the lowest bit stands for all below it. */
  private def scaled(k: Int, number: Long): Long = {
    val index = k - LeastK
    val x1 = Math.multiplyHigh(g0(index), number)
    val y0 = g1(index) * number
    val y1 = Math.multiplyHigh(g1(index), number)
    val z = (y0 >>> 1) + x1
    y1 + (z >>> 63) | (z & Mask63) + Mask63 >>> 63
  }

  // The logarithms are fractions of 2^41 and 2^38.
  private def floorLog10Pow2(q: Int): Int = (q * 661971961083L >> 41).toInt

  private def floorLog10ThreeQuartersPow2(q: Int): Int =
    (q * 661971961083L - 274743187321L >> 41).toInt

  private def floorLog2Pow10(k: Int): Int = (k * 913124641741L >> 38).toInt

  private def powerOfTen(exponent: Int): BigInteger = {
    val power = BigInteger.TEN.pow(exponent.abs)
    val shift = 125 - floorLog2Pow10(exponent)
    (if (exponent < 0) BigInteger.ONE.shiftLeft(shift).divide(power) else power.shiftLeft(shift))
      .add(BigInteger.ONE)
  }
}
