package io.sparkpgoutput.types.numbers

import org.apache.spark.sql.types.{DataType, LongType}

import io.sparkpgoutput.protocol.BigEndian
import io.sparkpgoutput.types._

/** xid8: 64 bits without a sign. BIGINT takes the lower half of its values, DECIMAL(20,0) all. */
object PgXid8 extends PgType("xid8") {
  override def sparkType(modifier: Int): DataType = LongType

  override def conversion(target: DataType, options: ConversionOptions): Option[Conversion] =
    NumberConversion.of(Xid8Reader, target)

  override def printer(options: ConversionOptions): Printer = Xid8Reader.print(_, _, _, _)

  private object Xid8Reader extends DecimalReader {
    override def fromText(bytes: Array[Byte], from: Int, to: Int, number: DecimalNumber): Unit = {
      if (from == to || bytes(from) < '0') throw InvalidValue.malformed(name)
      DecimalText.read(name, bytes, from, to, number)
      if (!number.finite || number.integerDigits > 20 || number.fractionDigits > 0) {
        throw InvalidValue.malformed(name)
      }
    }

    override def fromBinary(bytes: Array[Byte], from: Int, to: Int, number: DecimalNumber): Unit =
      number.set(negative = false, read(bytes, from, to), 0)

    override def print(bytes: Array[Byte], from: Int, to: Int, out: TextBuffer): Unit = {
      val value = read(bytes, from, to)
      if (value >= 0) out.number(value) else out.add(java.lang.Long.toUnsignedString(value))
    }

    private def read(bytes: Array[Byte], from: Int, to: Int): Long = {
      InvalidValue.requireSize(name, to - from, 8)
      BigEndian.int64(bytes, from)
    }
  }
}
