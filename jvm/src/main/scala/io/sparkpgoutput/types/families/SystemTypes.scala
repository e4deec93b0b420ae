package io.sparkpgoutput.types.families

import org.apache.spark.sql.types.{DataType, LongType}

import io.sparkpgoutput.protocol.{BigEndian, Lsn, TextEncoding}
import io.sparkpgoutput.types._
import io.sparkpgoutput.types.numbers.{LongReader, NumberConversion, PgInteger}

/**
 * The types whose names begin with reg: oids that print as names. A binary value is only the oid, so
 * it is a number even as STRING. A text is the name, or a number if the server knows no name. The text
 * of the oid 0 is a hyphen. An object of that name prints with quotes. Only an operator does not, and the
 * text of its oid 0 is a number.
 *
 * @see `regprocout`, `regclassout`, `regoperout`, in PostgreSQL's regproc.c
 */
final class PgReg(name: String) extends PgType(name) {
  override def conversion(target: DataType, options: ConversionOptions): Option[Conversion] =
    if (target == LongType) NumberConversion.of(reader, target) else None

  override def printer(options: ConversionOptions): Printer = PgInteger.Oid.printer(options)

  private val isOperator = name == "regoper" || name == "regoperator"

  private val reader = new LongReader {
    override def fromText(bytes: Array[Byte], from: Int, to: Int): Long =
      if (to - from == 1 && bytes(from) == '-' && !isOperator) 0
      else {
        val isNumber = from < to && bytes(from) >= '0' && bytes(from) <= '9'
        if (!isNumber) throw new InvalidValue("is a name, not an oid", "use STRING")
        PgInteger.Oid.reader.fromText(bytes, from, to)
      }

    override def fromBinary(bytes: Array[Byte], from: Int, to: Int): Long =
      PgInteger.Oid.reader.fromBinary(bytes, from, to)
  }
}

/**
 * int2vector and oidvector: arrays of one dimension without NULLs, with spaces between the elements.
 *
 * @see `int2vectorsend`, `oidvectorsend`
 */
final class PgVector(name: String, element: PgType) extends PgType(name) {
  override def printer(options: ConversionOptions): Printer = {
    val printer = element.printer(options)
    Printer.of(name) { (reader, out) =>
      val dimensions = reader.int32()
      if (dimensions < 0 || dimensions > 1) throw malformed
      reader.int32() // whether there are NULLs
      reader.int32() // the element type
      if (dimensions == 1) {
        val count = reader.count(4)
        reader.int32() // the lower bound
        out.list(count, ' ')(reader.print(printer, out))
      }
    }
  }
}

/**
 * pg_snapshot and txid_snapshot. The binary value is an int32, the number of open transactions, int64
 * xmin, int64 xmax, and an int64 for each open transaction.
 *
 * @see `pg_snapshot_send`
 */
final class PgSnapshot(name: String) extends PgType(name) {
  override def printer(options: ConversionOptions): Printer = Printer.of(name) { (reader, out) =>
    val count = reader.count(8)
    out.number(reader.int64())
    out.add(':')
    out.number(reader.int64())
    out.add(':')
    out.list(count, ',')(out.number(reader.int64()))
  }
}

/** pg_lsn. The binary value is an int64. */
object PgLsn extends PgType("pg_lsn") {
  override def printer(options: ConversionOptions): Printer = (bytes, from, to, out) =>
    out.add(Lsn.format(int64(bytes, from, to)))
}

/** tid. The binary value is a uint32, the block, and a uint16, the offset (`tidsend`). */
object PgTid extends PgType("tid") {
  override def printer(options: ConversionOptions): Printer = (bytes, from, to, out) => {
    InvalidValue.requireSize(name, to - from, 6)
    out.add('(')
    out.number(BigEndian.int32(bytes, from) & 0xffffffffL)
    out.add(',')
    out.number(BigEndian.int16(bytes, from + 4) & 0xffffL)
    out.add(')')
  }
}

/**
 * "char", a single byte. 0 prints as the empty text, and a byte that is not ASCII as a backslash and
 * three octal digits. PostgreSQL 14 and 15 print such a byte as it is. In a database in UTF-8, this text is
 * not valid, and is read as the text that later versions print.
 */
object PgChar extends PgType("char") {

  override protected def asText(printer: Printer, length: Int): Conversion =
    new StringConversion(printer, length) {
      override def fromText(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit =
        if (TextEncoding.isBareByte(bytes, from, to)) {
          val text = TextEncoding.escaped(bytes(from))
          super.fromText(text, 0, text.length, out)
        } else super.fromText(bytes, from, to, out)
    }

  override def printer(options: ConversionOptions): Printer = (bytes, from, to, out) => {
    InvalidValue.requireSize("\"char\"", to - from, 1)
    val byte = bytes(from)
    if (byte > 0) out.add(byte.toInt)
    else if (byte < 0) TextEncoding.escaped(byte).foreach(digit => out.add(digit.toInt))
  }
}

/** aclitem. It has no send function, so a server sends it as text, even in binary mode. */
object PgAclItem extends PgType("aclitem") {
  override def printer(options: ConversionOptions): Printer = (_, _, _, _) =>
    throw new InvalidValue("is binary, but an aclitem has no binary form")
}
