package io.sparkpgoutput.types.numbers

import org.apache.spark.sql.types._

import io.sparkpgoutput.types.{Conversion, InvalidValue, PowersOfTen, TextBuffer, ValueWriter}

/**
 * Reads values as one of Spark's numbers. A number that the type cannot keep is refused, but a decimal number
 * becomes the nearest FLOAT or DOUBLE.
 */
object NumberConversion {
  def of(reader: DecimalReader, target: DataType): Option[Conversion] = target match {
    case FloatType | DoubleType => Some(new DoubleConversion(reader, target))
    case decimal: DecimalType   => Some(new DecimalConversion(reader, decimal))
    case _                      => of(new IntegralReader(reader), target)
  }

  def of(reader: LongReader, target: DataType): Option[Conversion] =
    Option(writer(target)).map(new LongConversion(reader, _))

  /** Writes whole numbers as a Spark type; null if it is not a number. */
  private def writer(target: DataType): LongWriter = target match {
    case ByteType | ShortType | IntegerType | LongType =>
      val greatest = -1L >>> 65 - 8 * target.defaultSize
      (value, out) => {
        if (value > greatest || value < -greatest - 1) throw outOfRange(value, target)
        out.write(value)
      }
    case FloatType | DoubleType =>
      val format = IeeeFormat.of(target)
      (value, out) => {
        if (!isExact(value, format)) throw inexact(value, target)
        out.write(value.toDouble)
      }
    case decimal: DecimalType =>
      (value, out) => {
        val number = Decimal(value)
        val fits = number.changePrecision(decimal.precision, decimal.scale)
        if (!fits) throw outOfRange(value, target)
        out.write(number, decimal.precision, decimal.scale)
      }
    case _ => null
  }

  /** Returns whether a format keeps a value. It does not store the first bit of the value, which is 1. */
  private def isExact(value: Long, format: IeeeFormat): Boolean =
    value == 0 || 63 - java.lang.Long.numberOfLeadingZeros(math.abs(value)) -
      java.lang.Long.numberOfTrailingZeros(value) <= format.mantissaBits

  private def inexact(value: Long, target: DataType) = new InvalidValue(
    s"has more digits than ${target.sql} keeps",
    if (target == FloatType && isExact(value, IeeeFormat.Binary64)) "use DOUBLE" else "use BIGINT"
  )

  private def outOfRange(value: Long, target: DataType): InvalidValue = {
    val wider =
      if (value == value.toInt && !target.isInstanceOf[DecimalType]) "INT" else "BIGINT"
    new InvalidValue(s"is out of range for ${target.sql}", s"use $wider")
  }
}

/** Reads whole numbers and writes them as one Spark type. */
final class LongConversion(reader: LongReader, writer: LongWriter) extends Conversion {
  override def fromText(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit =
    writer.write(reader.fromText(bytes, from, to), out)

  override def fromBinary(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit =
    writer.write(reader.fromBinary(bytes, from, to), out)
}

/** Writes whole numbers as one Spark type. */
trait LongWriter {
  def write(value: Long, out: ValueWriter): Unit
}

/** Reads values that are whole numbers of at most 64 bits. */
abstract class LongReader {
  def fromText(bytes: Array[Byte], from: Int, to: Int): Long
  def fromBinary(bytes: Array[Byte], from: Int, to: Int): Long
}

/** Reads decimal numbers that are whole and have at most 64 bits. */
final class IntegralReader(reader: DecimalReader) extends LongReader {
  override def fromText(bytes: Array[Byte], from: Int, to: Int): Long =
    whole(reader.fromText(bytes, from, to))

  override def fromBinary(bytes: Array[Byte], from: Int, to: Int): Long =
    whole(reader.fromBinary(bytes, from, to))

  private def whole(number: DecimalNumber): Long = {
    if (!number.finite || !number.fits(PowersOfTen.Greatest, scale = 0)) throw refused(number)
    val value = number.unscaled(scale = 0)
    val overflows = value != 0 && value < 0 != number.negative
    if (overflows) throw refused(number)
    value
  }

  private def refused(number: DecimalNumber): InvalidValue =
    if (!number.finite) DecimalConversion.notFinite
    else if (number.fractionDigits > 0) {
      val remedy = DecimalConversion.remedy(number.integerDigits, number.fractionDigits)
      new InvalidValue("is not a whole number", remedy)
    } else {
      // 20 digits take all numbers of 64 bits.
      val remedy = DecimalConversion.remedy(math.max(20, number.integerDigits), 0)
      new InvalidValue("is out of range for BIGINT", remedy)
    }
}

/** Reads decimal numbers as DECIMAL, exactly. */
final class DecimalConversion(reader: DecimalReader, target: DecimalType) extends Conversion {
  private val precision = target.precision
  private val scale = target.scale
  private val isLong = precision <= Decimal.MAX_LONG_DIGITS
  private val wide = new UInt128

  override def fromText(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit =
    write(reader.fromText(bytes, from, to), out)

  override def fromBinary(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit =
    write(reader.fromBinary(bytes, from, to), out)

  private def write(number: DecimalNumber, out: ValueWriter): Unit = {
    if (!number.finite) throw DecimalConversion.notFinite
    if (!number.fits(precision, scale)) throw refused(number)
    if (isLong) out.write(number.unscaled(scale)) else writeWide(number, out)
  }

  private def writeWide(number: DecimalNumber, out: ValueWriter): Unit = {
    wide.set(number.significand)
    wide.multiplyByTen(number.more)
    wide.add(number.tail)
    wide.multiplyByTen(scale + number.exponent - number.more)
    val decimal =
      if (wide.isLong) {
        Decimal.createUnsafe(if (number.negative) -wide.toLong else wide.toLong, precision, scale)
      } else {
        val unscaled = wide.toBigInteger(number.negative)
        Decimal(new java.math.BigDecimal(unscaled, scale), precision, scale)
      }
    out.write(decimal, precision, scale)
  }

  private def refused(number: DecimalNumber): InvalidValue = {
    val integerDigits = math.max(0, number.integerDigits)
    val fractionDigits = number.fractionDigits
    new InvalidValue(
      if (fractionDigits > scale) s"has more than $scale digits after the point"
      else s"is out of range for ${target.sql}", {
        val asWell = math.max(integerDigits, precision - scale)
        if (asWell + math.max(fractionDigits, scale) > DecimalType.MAX_PRECISION) {
          DecimalConversion.remedy(integerDigits, fractionDigits)
        } else DecimalConversion.remedy(asWell, math.max(fractionDigits, scale))
      }
    )
  }
}

object DecimalConversion {

  /** The Spark type that takes numbers with so many digits before and after the point. */
  def remedy(integerDigits: Int, fractionDigits: Int): String = {
    val precision = math.max(1, math.max(0, integerDigits).toLong + fractionDigits)
    if (precision > DecimalType.MAX_PRECISION) "use STRING"
    else s"use DECIMAL($precision,$fractionDigits) or STRING"
  }

  def notFinite: InvalidValue =
    new InvalidValue("is not a finite number", "use DOUBLE or STRING")
}

/** Reads decimal numbers as the nearest FLOAT or DOUBLE. A number out of range is refused. */
final class DoubleConversion(reader: DecimalReader, target: DataType) extends Conversion {
  private val format = IeeeFormat.of(target)
  private val text = new TextBuffer

  override def fromText(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit = {
    val number = reader.fromText(bytes, from, to)
    write(format.nearest(number, bytes, from, to), number.finite, out)
  }

  override def fromBinary(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit = {
    val number = reader.fromBinary(bytes, from, to)
    text.clear()
    if (!format.isDecided(number)) reader.print(bytes, from, to, text)
    write(format.nearest(number, text.bytes, 0, text.size), number.finite, out)
  }

  private def write(value: Double, finite: Boolean, out: ValueWriter): Unit = {
    if (value.isInfinite && finite) {
      val remedy = if (target == FloatType) "use DOUBLE or STRING" else "use STRING"
      throw new InvalidValue(s"is out of range for ${target.sql}", remedy)
    }
    out.write(value)
  }
}
