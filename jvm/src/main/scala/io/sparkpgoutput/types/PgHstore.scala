package io.sparkpgoutput.types

import org.apache.spark.sql.catalyst.expressions.codegen.{UnsafeArrayWriter, UnsafeWriter}
import org.apache.spark.sql.types.{DataType, MapType, StringType}
import org.apache.spark.unsafe.Platform

/**
 * hstore of the extension of this name, whose oid is another in each database: MAP<STRING, STRING>.
 *
 * @see
 *   `contrib/hstore/hstore_io.c`: `hstore_send`, `hstore_out`
 */
private[sparkpgoutput] object PgHstore extends PgType {
  override def name: String = "hstore"

  override def sparkType(modifier: Int): DataType = MapType(StringType, StringType)

  override protected def conversion(
      target: DataType,
      options: ConversionOptions
  ): Option[Conversion] = target match {
    case MapType(StringType, StringType, true) => Some(new HstoreConversion(options))
    case _                                     => None
  }

  override def printer(options: ConversionOptions): Printer = new Printer {
    private val reader = new HstoreReader(options.encoding)

    override def print(bytes: Array[Byte], from: Int, to: Int, out: TextBuffer): Unit = {
      reader.fromBinary(bytes, from, to)
      PgHstore.print(reader.pairs, out)
    }
  }

  private def print(pairs: HstorePairs, out: TextBuffer): Unit = {
    var index = 0
    while (index < pairs.size) {
      if (index > 0) {
        out.add(',')
        out.add(' ')
      }
      quoted(pairs.keys, pairs.keyFrom(index), pairs.keyTo(index), out)
      out.add('=')
      out.add('>')
      if (pairs.isNull(index)) out.add("NULL")
      else quoted(pairs.values, pairs.valueFrom(index), pairs.valueTo(index), out)
      index += 1
    }
  }

  private def quoted(text: TextBuffer, from: Int, to: Int, out: TextBuffer): Unit =
    out.quoted(text.bytes, from, to, quote = '"', escape = '\\')
}

/**
 * Reads hstore to maps, laid out as `UnsafeMapData`: the size in bytes of the array of keys, that
 * array, the array of values.
 */
final private class HstoreConversion(options: ConversionOptions) extends Conversion {
  private val reader = new HstoreReader(options.encoding)
  private val pairs = reader.pairs
  private var writer: UnsafeWriter = null
  private var array: UnsafeArrayWriter = null

  override def fromText(bytes: Array[Byte], from: Int, to: Int, out: Slot): Unit = {
    reader.fromText(bytes, from, to)
    write(out)
  }

  override def fromBinary(bytes: Array[Byte], from: Int, to: Int, out: Slot): Unit = {
    reader.fromBinary(bytes, from, to)
    write(out)
  }

  private def write(out: Slot): Unit = {
    if (out.writer ne writer) {
      writer = out.writer
      array = new UnsafeArrayWriter(writer, 8)
    }
    val start = writer.cursor
    writer.grow(8)
    writer.increaseCursor(8)
    writeKeys()
    // From the start, not from an address kept: the buffer may be another one by now.
    Platform.putLong(writer.getBuffer, start.toLong, writer.cursor.toLong - start - 8)
    writeValues()
    writer.setOffsetAndSizeFromPreviousCursor(out.ordinal, start)
  }

  private def writeKeys(): Unit = {
    array.initialize(pairs.size)
    var index = 0
    while (index < pairs.size) {
      val from = pairs.keyFrom(index)
      array.write(index, pairs.keys.bytes, from, pairs.keyTo(index) - from)
      index += 1
    }
  }

  private def writeValues(): Unit = {
    array.initialize(pairs.size)
    var index = 0
    while (index < pairs.size) {
      val from = pairs.valueFrom(index)
      if (pairs.isNull(index)) array.setNull8Bytes(index)
      else array.write(index, pairs.values.bytes, from, pairs.valueTo(index) - from)
      index += 1
    }
  }
}
