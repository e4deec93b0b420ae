package io.sparkpgoutput.types.numbers

import java.lang.{Double => JDouble, Float => JFloat}
import java.math.{BigDecimal, BigInteger}
import java.nio.charset.StandardCharsets

import org.apache.spark.sql.types.{DataType, DoubleType, FloatType}

import io.sparkpgoutput.protocol.BigEndian
import io.sparkpgoutput.types._

/** float4 and float8. A float4 that is read as DOUBLE stays the same number. */
final class PgFloat private (name: String, default: DataType) extends PgType(name) {
  private val format = IeeeFormat.of(default)

  override def sparkType(modifier: Int): DataType = default

  override def conversion(target: DataType, options: ConversionOptions): Option[Conversion] =
    Option.when(target == default || target == DoubleType)(new Conversion {
      private val decimal = new DecimalText(name)
      private val kept = new KeptDigits(default)

      override def fromText(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit = {
        val number = decimal.read(bytes, from, to)
        val value = format.nearest(number, bytes, from, to)
        if (value.isInfinite && number.finite) throw malformed
        if (options.keepsDigits && !kept.keeps(number, value, bytes, from, to))
          throw kept.refused
        out.write(value)
      }

      override def fromBinary(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit = {
        val value = format.fromBits(readBits(bytes, from, to))
        // A server has several NaNs: infinity - infinity has other bits than 'NaN'.
        out.write(if (value.isNaN) Double.NaN else value)
      }
    })

  override def printer(options: ConversionOptions): Printer =
    (bytes, from, to, out) => ShortestDecimal.print(format, readBits(bytes, from, to), out)

  private def readBits(bytes: Array[Byte], from: Int, to: Int): Long = {
    InvalidValue.requireSize(name, to - from, default.defaultSize)
    if (to - from == 4) BigEndian.int32(bytes, from) & 0xffffffffL else BigEndian.int64(bytes, from)
  }
}

object PgFloat {
  val Float4 = new PgFloat("float4", FloatType)
  val Float8 = new PgFloat("float8", DoubleType)
}

/**
 * Finds the texts whose number a FLOAT or DOUBLE keeps: those that the server prints for it, and those of
 * exactly this number. The text of an int8 or numeric can have more digits.
 */
final class KeptDigits(target: DataType) {
  private val format = IeeeFormat.of(target)
  private val printed = new TextBuffer

  // With so many digits, different decimal numbers are different binary ones, except denormal ones.
  private val fewDigits = if (target == FloatType) 6 else 15
  private val leastNormal =
    (if (target == FloatType) JFloat.MIN_NORMAL else JDouble.MIN_NORMAL).toDouble

  /** @param value the nearest number to the one in the bytes from `from` up to `to` */
  def keeps(
      number: DecimalNumber,
      value: Double,
      bytes: Array[Byte],
      from: Int,
      to: Int
  ): Boolean = !number.finite || number.more == 0 && {
    number.significand == 0 ||
    PowersOfTen.hasDigits(number.significand, fewDigits) && math.abs(value) >= leastNormal
  } || {
    val exact = new BigDecimal(new String(bytes, from, to - from, StandardCharsets.US_ASCII))
    exact.compareTo(new BigDecimal(value)) == 0 || exact.compareTo(shortest(value)) == 0
  }

  private def shortest(value: Double): BigDecimal = {
    val bits =
      if (target == FloatType) JFloat.floatToRawIntBits(value.toFloat) & 0xffffffffL
      else JDouble.doubleToRawLongBits(value)
    printed.clear()
    ShortestDecimal.print(format, bits, printed)
    new BigDecimal(printed.toString)
  }

  def refused: InvalidValue = new InvalidValue(
    s"has a number with more digits than ${target.sql} keeps",
    "use DECIMAL or STRING there"
  )
}

/**
 * A binary format of IEEE 754. It finds the number that is nearest to a decimal one, ties to even.
 *
 * One or two multiplications with the first 128 bits of a power of five decide for each significand
 * of 64 bits. Only a number with more digits may need `parse`. A DOUBLE cell takes 21 ns for a price
 * and 37 ns for 17 digits; with Jackson's FastDoubleParser it takes 39 and 51 ns.
 *
 * @see Daniel Lemire, "Number Parsing at a Gigabyte per Second", 2021
 * @see Noble Mushtak and Daniel Lemire, "Fast Number Parsing Without Fallback", 2023
 * @param mantissaBits the stored bits, without the leading 1
 * @param leastPower
 *   the least power of ten. With a lesser one, a significand of 64 bits gives less than half the least
 *   number, so the result is 0.
 * @param leastTiePower
 *   the least power of ten with so few factors of five that a significand of 64 bits times the power
 *   can be halfway between two numbers
 */
sealed abstract class IeeeFormat(
    val mantissaBits: Int,
    val exponentBits: Int,
    leastPower: Int,
    greatestPower: Int,
    leastTiePower: Int,
    greatestTiePower: Int
) {

  /** The stored exponent of infinity and NaN. */
  val specialExponent: Int = (1 << exponentBits) - 1

  /** The difference between a stored exponent and the exponent. */
  val bias: Int = specialExponent >> 1

  private val precisionMask = -1L >>> (mantissaBits + 3)

  /** The number with these bits, as a Double. */
  def fromBits(bits: Long): Double

  /** Returns the number that is nearest to the one in a text. */
  protected def parse(text: String): Double

  /** Returns the number that is nearest to a decimal one, whose text is in the bytes from `from` up to `to`. */
  final def nearest(number: DecimalNumber, bytes: Array[Byte], from: Int, to: Int): Double =
    if (!number.finite) number.special
    else if (isDecided(number)) {
      val magnitude = nearest(number.significand, number.exponent)
      if (number.negative) -magnitude else magnitude
    } else parse(new String(bytes, from, to - from, StandardCharsets.US_ASCII))

  /** Returns whether the significand alone decides which number is the nearest. */
  final def isDecided(number: DecimalNumber): Boolean =
    number.more == 0 || nearest(number.significand, number.exponent) ==
      nearest(number.significand + 1, number.exponent)

  protected def nearest(significand: Long, exponent: Int): Double =
    if (significand == 0 || exponent < leastPower) 0.0
    else if (exponent > greatestPower) Double.PositiveInfinity
    else fromBits(bits(significand, exponent))

  private def bits(significand: Long, power: Int): Long = {
    val zeros = java.lang.Long.numberOfLeadingZeros(significand)
    val normalized = significand << zeros
    var high = UInt128.multiplyHigh(normalized, PowersOfFive.high(power))
    var low = normalized * PowersOfFive.high(power)
    if ((high & precisionMask) == precisionMask) {
      val more = UInt128.multiplyHigh(normalized, PowersOfFive.low(power))
      low += more
      if (java.lang.Long.compareUnsigned(low, more) < 0) high += 1
    }
    val upperBit = (high >>> 63).toInt
    val shift = upperBit + 64 - mantissaBits - 3
    var mantissa = high >>> shift // with one more bit, for rounding
    // 217706 / 2^16 is the binary logarithm of ten.
    var exponent = ((217706 * power) >> 16) + 63 + upperBit - zeros + bias
    if (exponent <= 0) {
      // A denormal number is never halfway: its power of ten is far too small.
      val denormal = 1 - exponent
      if (denormal >= 64) 0L
      else {
        // If it rounds up to the least normal number, its upper bit is the exponent 1.
        (mantissa >>> denormal) + 1 >>> 1
      }
    } else {
      val halfway = (low == 0 || low == 1) && power >= leastTiePower &&
        power <= greatestTiePower && (mantissa & 3) == 1 && mantissa << shift == high
      mantissa = if (halfway) mantissa >>> 1 else mantissa + 1 >>> 1
      if (mantissa >>> (mantissaBits + 1) != 0) {
        mantissa >>>= 1
        exponent += 1
      }
      if (exponent >= specialExponent) specialExponent.toLong << mantissaBits
      else (exponent.toLong << mantissaBits) | (mantissa & ((1L << mantissaBits) - 1))
    }
  }
}

object IeeeFormat {

  /** The format of FLOAT or DOUBLE. */
  def of(target: DataType): IeeeFormat = if (target == FloatType) Binary32 else Binary64

  /** float4 and FLOAT. */
  object Binary32 extends IeeeFormat(23, 8, -64, 38, -17, 10) {
    override def fromBits(bits: Long): Double =
      java.lang.Float.intBitsToFloat(bits.toInt).toDouble

    override protected def parse(text: String): Double = java.lang.Float.parseFloat(text).toDouble
  }

  /** float8 and DOUBLE. */
  object Binary64 extends IeeeFormat(52, 11, -342, 308, -4, 23) {
    private val exactPowers = Array.iterate(1.0, 23)(_ * 10)

    override def fromBits(bits: Long): Double = java.lang.Double.longBitsToDouble(bits)
    override protected def parse(text: String): Double = java.lang.Double.parseDouble(text)

    /** If the significand and the power of ten are exact, one operation of the processor rounds correctly (Clinger). */
    override protected def nearest(significand: Long, exponent: Int): Double =
      if (significand >>> 53 != 0 || exponent < -22 || exponent > 22) {
        super.nearest(significand, exponent)
      } else if (exponent < 0) significand.toDouble / exactPowers(-exponent)
      else significand.toDouble * exactPowers(exponent)
  }
}

/**
 * The first 128 bits of the powers of five, which turn decimal significands into binary ones. They
 * are rounded down, but up for negative exponents, because these powers have no last digit.
 *
 * @see Daniel Lemire, "Number Parsing at a Gigabyte per Second", 2021, section 5
 */
object PowersOfFive {

  /** With a lesser power of ten, a significand of 64 bits gives less than half the least double. */
  final val Least = -342

  /** With a greater power of ten, any significand except 0 gives more than the greatest double. */
  final val Greatest = 308

  private val powers = Array.tabulate(Greatest - Least + 1) { index =>
    val exponent = Least + index
    if (exponent < 0) first128Bits(exponent).add(BigInteger.ONE) else first128Bits(exponent)
  }
  private val highs = powers.map(_.shiftRight(64).longValue)
  private val lows = powers.map(_.longValue)

  def high(exponent: Int): Long = highs(exponent - Least)
  def low(exponent: Int): Long = lows(exponent - Least)

  /** The first 128 bits, rounded down. */
  def first128Bits(exponent: Int): BigInteger = {
    val power = BigInteger.valueOf(5).pow(exponent.abs)
    if (exponent >= 0) power.shiftLeft(128).shiftRight(power.bitLength)
    else {
      // 2^(bitLength + 127) / 5^n has 128 bits, because 5^n is not a power of two unless it is 1.
      BigInteger.ONE.shiftLeft(power.bitLength + 127).divide(power)
    }
  }
}

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

  /** 10^-k as 126 bits, plus one, in an upper and a lower half of 63 bits. 5^-k has the same bits. */
  private val g = Array.tabulate(GreatestK - LeastK + 1) { index =>
    PowersOfFive.first128Bits(-LeastK - index).shiftRight(2).add(BigInteger.ONE)
  }
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
        val irregular = mantissa == 0 && exponent > 1
        val k = if (irregular) floorLog10ThreeQuartersPow2(q) else floorLog10Pow2(q)
        val digits = shortest(k, q, c, irregular)
        layOut(digits, k, plainBelow = if (format.mantissaBits > 23) 15 else 6, out)
      }
    }
  }

  /** Returns the shortest number, in units of 10^k. */
  private def shortest(k: Int, q: Int, c: Long, irregular: Boolean): Long = {
    val h = q + floorLog2Pow10(-k) + 2
    val vb = scaled(k, c << 2 << h)
    val vbl = scaled(k, (c << 2) - (if (irregular) 1 else 2) << h)
    val vbr = scaled(k, (c << 2) + 2 << h)
    // Four times the number and its bounds, in units of 10^k. The number is between s and s + 1.
    val s = vb >> 2
    val tens = s / 10 * 10
    val lowerTens = vbl < (tens << 2)
    val upperTens = (tens + 10 << 2) < vbr
    if (s >= 10 && lowerTens != upperTens) tens + (if (lowerTens) 0 else 10)
    else {
      val lower = vbl < (s << 2)
      val upper = (s + 1 << 2) < vbr
      val distance = vb - (s + s + 1 << 1)
      val nearestIsLower = distance < 0 || distance == 0 && (s & 1) == 0
      if (if (lower != upper) lower else nearestIsLower) s else s + 1
    }
  }

  /** Prints a number times 10^k as `to_chars` does. From 10^plainBelow on, the text has an exponent. */
  private def layOut(number: Long, k: Int, plainBelow: Int, out: TextBuffer): Unit = {
    var digits = number
    var exponent = k
    while (digits % 10 == 0) { digits /= 10; exponent += 1 }
    val size = PowersOfTen.digits(digits)
    val scientific = exponent + size - 1 // the exponent if one digit is before the point
    if (scientific < -4 || scientific >= plainBelow) {
      out.decimal(digits, size - 1)
      out.add('e')
      out.add(if (scientific < 0) '-' else '+')
      out.padded(math.abs(scientific).toLong, 2)
    } else if (scientific < 0) {
      out.add("0.")
      out.padded(digits, -exponent)
    } else if (exponent >= 0) out.number(digits * PowersOfTen(exponent))
    else out.decimal(digits, -exponent)
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
}
