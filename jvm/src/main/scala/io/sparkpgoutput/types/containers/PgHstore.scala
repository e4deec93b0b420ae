package io.sparkpgoutput.types.containers

import org.apache.spark.sql.types.{DataType, MapType, StringType}

import io.sparkpgoutput.protocol.TextEncoding
import io.sparkpgoutput.types._

/**
 * hstore: MAP<STRING, STRING>. It comes from an extension, so its oid differs between databases.
 *
 * @see `contrib/hstore/hstore_io.c`: `hstore_send`, `hstore_out`
 */
object PgHstore extends PgType("hstore") {
  override def sparkType(modifier: Int): DataType = MapType(StringType, StringType)

  override def readsUnknown(target: DataType): Boolean = target.isInstanceOf[MapType]

  override protected def variantType: DataType = StringType

  override protected def conversion(
      target: DataType,
      options: ConversionOptions
  ): Option[Conversion] = target match {
    case MapType(StringType, StringType, true) => Some(new HstoreConversion(options))
    case _                                     => None
  }

  override def printer(options: ConversionOptions): Printer = {
    val reader = new HstoreReader(options.encoding)
    (bytes, from, to, out) => print(reader.fromBinary(bytes, from, to), out)
  }

  private def print(pairs: KeyValueBuffer, out: TextBuffer): Unit = {
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

/** Reads hstore as MAP. */
final private class HstoreConversion(options: ConversionOptions) extends Conversion {
  private val reader = new HstoreReader(options.encoding)
  private val map = new StringMapWriter

  override def fromText(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit =
    map.write(reader.fromText(bytes, from, to), out)

  override def fromBinary(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit =
    map.write(reader.fromBinary(bytes, from, to), out)
}

/** Reads the pairs of an hstore. The pairs of the next value overwrite them. */
final class HstoreReader(encoding: TextEncoding) {
  private val binary = new BinaryReader(PgHstore.name)
  private val text = new EncodedText(encoding)
  private val pairs = new KeyValueBuffer

  /** Reads int32 number of pairs; for each key and value int32 size, which is -1 for NULL, and text. */
  def fromBinary(bytes: Array[Byte], from: Int, to: Int): KeyValueBuffer = {
    binary.start(bytes, from, to)
    pairs.clear()
    val count = binary.count(leastBytes = 8)
    var index = 0
    while (index < count) {
      addText(binary.int32(), pairs.keys)
      val size = binary.int32()
      if (size != -1) addText(size, pairs.values)
      pairs.addPair(valueIsNull = size == -1)
      index += 1
    }
    binary.finish()
    checked()
  }

  private def addText(size: Int, out: TextBuffer): Unit = {
    val from = binary.take(size)
    text.print(binary.bytes, from, from + size, out)
  }

  /** Reads `"key"=>"value", "key"=>NULL`, where a backslash precedes each quote and backslash. */
  def fromText(bytes: Array[Byte], from: Int, to: Int): KeyValueBuffer = {
    pairs.clear()
    var at = from
    while (at < to) {
      if (at > from) at = literal(", ", bytes, at, to)
      at = quoted(bytes, at, to, pairs.keys)
      at = literal("=>", bytes, at, to)
      val isNull = at < to && bytes(at) != '"'
      at = if (isNull) literal("NULL", bytes, at, to) else quoted(bytes, at, to, pairs.values)
      pairs.addPair(isNull)
    }
    checked()
  }

  /** Skips a text and returns the position after it. */
  private def literal(text: String, bytes: Array[Byte], at: Int, to: Int): Int = {
    val end = at + text.length
    if (end > to || !Ascii.equal(bytes, at, end, text)) throw malformed
    end
  }

  /** Appends a text without its quotes and escapes and returns the position after it. */
  private def quoted(bytes: Array[Byte], from: Int, to: Int, out: TextBuffer): Int = {
    var at = literal("\"", bytes, from, to)
    while (at < to && bytes(at) != '"') {
      if (bytes(at) == '\\') at += 1
      if (at == to) throw malformed
      out.add(bytes(at).toInt)
      at += 1
    }
    literal("\"", bytes, at, to)
  }

  private def checked(): KeyValueBuffer = {
    if (pairs.hasDuplicateKeys) throw new InvalidValue("has a key twice", "use STRING")
    pairs
  }

  private def malformed = InvalidValue.malformed(PgHstore.name)
}
