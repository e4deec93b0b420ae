package io.sparkpgoutput.types.numbers

import org.apache.spark.sql.types.{DataType, FloatType}

import io.sparkpgoutput.types.{Conversion, InvalidValue, TextBuffer, ValueWriter}

/** Reads decimal numbers as the nearest FLOAT or DOUBLE. A number out of range is refused. */
final class DoubleConversion(reader: DecimalReader, target: DataType) extends Conversion {
  private val isFloat = target == FloatType
  private val format = if (isFloat) IeeeFormat.Binary32 else IeeeFormat.Binary64
  private val number = new DecimalNumber
  private val text = new TextBuffer

  override def fromText(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit = {
    reader.fromText(bytes, from, to, number)
    write(format.nearest(number, bytes, from, to), out)
  }

  override def fromBinary(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit = {
    reader.fromBinary(bytes, from, to, number)
    text.clear()
    if (!format.isDecided(number)) reader.print(bytes, from, to, text)
    write(format.nearest(number, text.bytes, 0, text.size), out)
  }

  private def write(value: Double, out: ValueWriter): Unit = {
    if (value.isInfinite && number.finite) {
      val remedy = if (isFloat) "use DOUBLE or STRING" else "use STRING"
      throw new InvalidValue(s"is out of range for ${target.sql}", remedy)
    }
    if (isFloat) out.write(value.toFloat) else out.write(value)
  }
}
