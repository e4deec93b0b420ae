package io.sparkpgoutput.types.numbers

import org.apache.spark.sql.types.{DataType, DoubleType, FloatType}

import io.sparkpgoutput.protocol.BigEndian
import io.sparkpgoutput.types._

/** float4 and float8. A float4 that is read as DOUBLE stays the same number. */
final class PgFloat private (
    name: String,
    format: IeeeFormat,
    default: DataType
) extends PgType(name) {
  private val isFloat4 = default == FloatType

  override def sparkType(modifier: Int): DataType = default
  override def readsUnknown(target: DataType): Boolean = target == default

  override def conversion(target: DataType, options: ConversionOptions): Option[Conversion] =
    Option.when(target == default || target == DoubleType)(new FloatConversion(target))

  final private class FloatConversion(target: DataType) extends Conversion {
    private val number = new DecimalNumber
    private val asFloat = target == FloatType

    override def fromText(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit = {
      DecimalText.read(name, bytes, from, to, number)
      val value = format.nearest(number, bytes, from, to)
      if (value.isInfinite && number.finite) throw InvalidValue.malformed(name)
      write(value, out)
    }

    override def fromBinary(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit = {
      val bits = readBits(bytes, from, to)
      val value =
        if (isFloat4) java.lang.Float.intBitsToFloat(bits.toInt).toDouble
        else java.lang.Double.longBitsToDouble(bits)
      // A server has several NaNs: infinity - infinity has other bits than 'NaN'.
      write(if (value.isNaN) Double.NaN else value, out)
    }

    private def write(value: Double, out: ValueWriter): Unit =
      if (asFloat) out.write(value.toFloat) else out.write(value)
  }

  override def printer(options: ConversionOptions): Printer =
    (bytes, from, to, out) => ShortestDecimal.print(format, readBits(bytes, from, to), out)

  private def readBits(bytes: Array[Byte], from: Int, to: Int): Long = {
    InvalidValue.requireSize(name, to - from, if (isFloat4) 4 else 8)
    if (isFloat4) BigEndian.int32(bytes, from) & 0xffffffffL else BigEndian.int64(bytes, from)
  }
}

object PgFloat {
  val Float4 = new PgFloat("float4", IeeeFormat.Binary32, FloatType)
  val Float8 = new PgFloat("float8", IeeeFormat.Binary64, DoubleType)
}
