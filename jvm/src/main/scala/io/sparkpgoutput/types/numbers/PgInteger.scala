package io.sparkpgoutput.types.numbers

import org.apache.spark.sql.types._

import io.sparkpgoutput.protocol.BigEndian
import io.sparkpgoutput.types._

/** int2, int4 and int8, and oid, xid and cid, which have no sign. */
final class PgInteger(name: String, bytesSent: Int, default: DataType) extends PgType(name) {

  /** If there is no sign, the Spark type is wider, so that it has all values. */
  private val signed = default.defaultSize == bytesSent

  override def sparkType(modifier: Int): DataType = default

  override def conversion(target: DataType, options: ConversionOptions): Option[Conversion] =
    NumberConversion.of(reader, target)

  override def printer(options: ConversionOptions): Printer = (bytes, from, to, out) =>
    out.number(reader.fromBinary(bytes, from, to))

  val reader: LongReader = new LongReader {
    override def fromText(bytes: Array[Byte], from: Int, to: Int): Long =
      PgInteger.parse(name, bytes, from, to)

    override def fromBinary(bytes: Array[Byte], from: Int, to: Int): Long = {
      InvalidValue.requireSize(name, to - from, bytesSent)
      bytesSent match {
        case 2 => BigEndian.int16(bytes, from).toLong
        case 4 =>
          val value = BigEndian.int32(bytes, from)
          if (signed) value.toLong else value & 0xffffffffL
        case 8 => BigEndian.int64(bytes, from)
      }
    }
  }
}

object PgInteger {
  val Int2 = new PgInteger("int2", 2, ShortType)
  val Int4 = new PgInteger("int4", 4, IntegerType)
  val Int8 = new PgInteger("int8", 8, LongType)
  val Oid = new PgInteger("oid", 4, LongType)
  val Xid = new PgInteger("xid", 4, LongType)
  val Cid = new PgInteger("cid", 4, LongType)

  /** Reads a sign and decimal digits, as servers print them, of a number of at most 64 bits. */
  def parse(typeName: String, bytes: Array[Byte], from: Int, to: Int): Long = {
    val negative = from < to && bytes(from) == '-'
    var at = if (negative) from + 1 else from
    if (at == to) throw InvalidValue.malformed(typeName)
    var value = 0L // stays negative, because the least number has no positive counterpart
    while (at < to) {
      val digit = bytes(at) - '0'
      if (digit < 0 || digit > 9) throw InvalidValue.malformed(typeName)
      if (value < Long.MinValue / 10 || value * 10 < Long.MinValue + digit) throw tooGreat
      value = value * 10 - digit
      at += 1
    }
    if (value == Long.MinValue && !negative) throw tooGreat
    if (negative) value else -value
  }

  private def tooGreat = new InvalidValue("has more than 64 bits", "use DECIMAL(20,0) or STRING")
}

/** xid8: 64 bits without a sign. BIGINT takes the lower half of its values, DECIMAL(20,0) all. */
object PgXid8 extends PgType("xid8") {
  override def sparkType(modifier: Int): DataType = LongType

  override def conversion(target: DataType, options: ConversionOptions): Option[Conversion] =
    target match {
      // Unlike a numeric, a whole number becomes one of these only if it keeps its value.
      case FloatType | DoubleType => NumberConversion.of(new IntegralReader(new Xid8Reader), target)
      case _                      => NumberConversion.of(new Xid8Reader, target)
    }

  override def printer(options: ConversionOptions): Printer = new Xid8Reader

  final private class Xid8Reader extends DecimalReader {
    private val decimal = new DecimalText(name)

    override def fromText(bytes: Array[Byte], from: Int, to: Int): DecimalNumber = {
      if (from == to || bytes(from) < '0') throw malformed
      val number = decimal.read(bytes, from, to)
      if (!number.finite || number.integerDigits > 20 || number.fractionDigits > 0) throw malformed
      number
    }

    override def fromBinary(bytes: Array[Byte], from: Int, to: Int): DecimalNumber =
      decimal.number.set(negative = false, int64(bytes, from, to), 0)

    override def print(bytes: Array[Byte], from: Int, to: Int, out: TextBuffer): Unit = {
      val value = int64(bytes, from, to)
      if (value >= 0) out.number(value) else out.add(java.lang.Long.toUnsignedString(value))
    }
  }
}
