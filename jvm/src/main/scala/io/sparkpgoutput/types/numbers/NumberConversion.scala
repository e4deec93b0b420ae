package io.sparkpgoutput.types.numbers

import org.apache.spark.sql.types._

import io.sparkpgoutput.types.{Conversion, InvalidValue, ValueWriter}

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
    Option(target match {
      case ByteType =>
        new LongConversion(reader) {
          override def write(value: Long, out: ValueWriter): Unit = {
            require(value == value.toByte, value, target)
            out.write(value.toByte)
          }
        }
      case ShortType =>
        new LongConversion(reader) {
          override def write(value: Long, out: ValueWriter): Unit = {
            require(value == value.toShort, value, target)
            out.write(value.toShort)
          }
        }
      case IntegerType =>
        new LongConversion(reader) {
          override def write(value: Long, out: ValueWriter): Unit = {
            require(value == value.toInt, value, target)
            out.write(value.toInt)
          }
        }
      case LongType =>
        new LongConversion(reader) {
          override def write(value: Long, out: ValueWriter): Unit =
            out.write(value)
        }
      case FloatType =>
        new LongConversion(reader) {
          override def write(value: Long, out: ValueWriter): Unit = {
            keep(isExact(value, BitsOfFloat), value, target)
            out.write(value.toFloat)
          }
        }
      case DoubleType =>
        new LongConversion(reader) {
          override def write(value: Long, out: ValueWriter): Unit = {
            keep(isExact(value, BitsOfDouble), value, target)
            out.write(value.toDouble)
          }
        }
      case decimal: DecimalType =>
        new LongConversion(reader) {
          override def write(value: Long, out: ValueWriter): Unit = {
            val number = Decimal(value)
            require(number.changePrecision(decimal.precision, decimal.scale), value, target)
            out.write(number, decimal.precision, decimal.scale)
          }
        }
      case _ => null
    })

  final private val BitsOfFloat = 24
  final private val BitsOfDouble = 53

  /** Returns whether a floating-point number whose significand has so many bits keeps a value. */
  private def isExact(value: Long, bits: Int): Boolean =
    value == 0 || 64 - java.lang.Long.numberOfLeadingZeros(math.abs(value)) -
      java.lang.Long.numberOfTrailingZeros(value) <= bits

  private def keep(isExact: Boolean, value: Long, target: DataType): Unit =
    if (!isExact) throw new InvalidValue(
      s"has more digits than ${target.sql} keeps",
      if (target == FloatType && this.isExact(value, BitsOfDouble)) "use DOUBLE" else "use BIGINT"
    )

  private def require(fits: Boolean, value: Long, target: DataType): Unit =
    if (!fits) throw outOfRange(value, target)

  private def outOfRange(value: Long, target: DataType): InvalidValue = {
    val wider =
      if (value == value.toInt && !target.isInstanceOf[DecimalType]) "INT" else "BIGINT"
    new InvalidValue(s"is out of range for ${target.sql}", s"use $wider")
  }
}
