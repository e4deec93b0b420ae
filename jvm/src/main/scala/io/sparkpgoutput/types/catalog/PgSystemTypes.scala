package io.sparkpgoutput.types.catalog

import io.sparkpgoutput.protocol.{BigEndian, Lsn}
import io.sparkpgoutput.types._
import io.sparkpgoutput.types.numbers.PgInteger

/** Small types of a server's own catalogs and functions. They are read only as STRING. */
object PgSystemTypes {

  final private class Type(name: String, newPrinter: () => Printer) extends PgType(name) {
    override def printer(options: ConversionOptions): Printer = newPrinter()
  }

  val Char: PgType = new Type("char", () => printChar(_, _, _, _))
  val Tid: PgType = new Type("tid", () => printTid(_, _, _, _))
  val Uuid: PgType = new Type("uuid", () => printUuid(_, _, _, _))
  val PgLsn: PgType = new Type("pg_lsn", () => printLsn(_, _, _, _))
  val PgSnapshot: PgType = new Type("pg_snapshot", () => new SnapshotPrinter("pg_snapshot"))
  val TxidSnapshot: PgType = new Type("txid_snapshot", () => new SnapshotPrinter("txid_snapshot"))
  val Int2Vector: PgType =
    new Type("int2vector", () => new VectorPrinter("int2vector", PgInteger.Int2))
  val OidVector: PgType = new Type("oidvector", () => new VectorPrinter("oidvector", PgInteger.Oid))

  /**
   * Prints "char", one byte. 0 is the empty text. A byte that is not ASCII is a backslash and three
   * octal digits.
   */
  private def printChar(bytes: Array[Byte], from: Int, to: Int, out: TextBuffer): Unit = {
    InvalidValue.requireSize("\"char\"", to - from, 1)
    val byte = bytes(from)
    if (byte > 0) out.add(byte.toInt)
    else if (byte < 0) {
      out.add('\\')
      out.add('0' + (byte >> 6 & 3))
      out.add('0' + (byte >> 3 & 7))
      out.add('0' + (byte & 7))
    }
  }

  /** Prints uint32 block and uint16 offset (`tidsend`). */
  private def printTid(bytes: Array[Byte], from: Int, to: Int, out: TextBuffer): Unit = {
    InvalidValue.requireSize("tid", to - from, 6)
    out.add('(')
    out.number(BigEndian.int32(bytes, from) & 0xffffffffL)
    out.add(',')
    out.number(BigEndian.int16(bytes, from + 4) & 0xffffL)
    out.add(')')
  }

  private def printUuid(bytes: Array[Byte], from: Int, to: Int, out: TextBuffer): Unit = {
    InvalidValue.requireSize("uuid", to - from, 16)
    out.hex(bytes, from, from + 4)
    out.add('-')
    out.hex(bytes, from + 4, from + 6)
    out.add('-')
    out.hex(bytes, from + 6, from + 8)
    out.add('-')
    out.hex(bytes, from + 8, from + 10)
    out.add('-')
    out.hex(bytes, from + 10, to)
  }

  private def printLsn(bytes: Array[Byte], from: Int, to: Int, out: TextBuffer): Unit = {
    InvalidValue.requireSize("pg_lsn", to - from, 8)
    out.add(Lsn.format(BigEndian.int64(bytes, from)))
  }

  /** Prints int32 count, int64 xmin, int64 xmax, and int64 for each open transaction. */
  final private class SnapshotPrinter(typeName: String) extends Printer {
    private val reader = new BinaryReader(typeName)

    override def print(bytes: Array[Byte], from: Int, to: Int, out: TextBuffer): Unit = {
      reader.start(bytes, from, to)
      val count = reader.count(8)
      out.number(reader.int64())
      out.add(':')
      out.number(reader.int64())
      out.add(':')
      var index = 0
      while (index < count) {
        if (index > 0) out.add(',')
        out.number(reader.int64())
        index += 1
      }
      reader.finish()
    }
  }

  /** Prints an array of one dimension without NULLs (`int2vectorsend`, `oidvectorsend`). */
  final private class VectorPrinter(typeName: String, element: PgInteger) extends Printer {
    private val reader = new BinaryReader(typeName)
    private val printer = element.printer(ConversionOptions())

    override def print(bytes: Array[Byte], from: Int, to: Int, out: TextBuffer): Unit = {
      reader.start(bytes, from, to)
      val dimensions = reader.int32()
      if (dimensions < 0 || dimensions > 1) throw InvalidValue.malformed(typeName)
      reader.int32() // whether there are NULLs
      reader.int32() // the element type
      if (dimensions == 1) {
        val count = reader.count(4)
        reader.int32() // the lower bound
        var index = 0
        while (index < count) {
          if (index > 0) out.add(' ')
          val at = reader.take(reader.int32())
          printer.print(reader.bytes, at, reader.position, out)
          index += 1
        }
      }
      reader.finish()
    }
  }
}
