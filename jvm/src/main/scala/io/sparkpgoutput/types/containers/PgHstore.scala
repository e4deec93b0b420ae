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

  override protected def variantType: DataType = StringType

  override def conversion(target: DataType, options: ConversionOptions): Option[Conversion] =
    Option.when(sparkType(-1) == target)(new HstoreConversion(options.encoding))

  override def printer(options: ConversionOptions): Printer = {
    val conversion = new HstoreConversion(options.encoding)
    (bytes, from, to, out) => print(conversion.readBinary(bytes, from, to), out)
  }

  private def print(pairs: StringMapWriter, out: TextBuffer): Unit = {
    var index = 0
    while (index < pairs.keys.size) {
      if (index > 0) {
        out.add(',')
        out.add(' ')
      }
      quoted(pairs.keys, index, out)
      out.add('=')
      out.add('>')
      if (pairs.values.isNull(index)) out.add("NULL") else quoted(pairs.values, index, out)
      index += 1
    }
  }

  private def quoted(strings: StringList, index: Int, out: TextBuffer): Unit =
    out.quoted(strings.text.bytes, strings.from(index), strings.to(index), '"', escape = '\\')
}

/** Reads hstore as MAP. The pairs of the next value overwrite those of the last one. */
final private class HstoreConversion(encoding: TextEncoding) extends Conversion {
  private val binary = new BinaryReader(PgHstore.name)
  private val text = new EncodedText(encoding)
  private val pairs = new StringMapWriter

  override def fromBinary(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit =
    readBinary(bytes, from, to).write(out)

  /** Reads int32 number of pairs; for each key and value int32 size, which is -1 for NULL, and text. */
  def readBinary(bytes: Array[Byte], from: Int, to: Int): StringMapWriter = {
    binary.start(bytes, from, to)
    pairs.clear()
    val count = binary.count(leastBytes = 8)
    var index = 0
    while (index < count) {
      binary.print(text, pairs.keys.text)
      val at = binary.part()
      if (at != -1) text.print(bytes, at, binary.position, pairs.values.text)
      pairs.addPair(valueIsNull = at == -1)
      index += 1
    }
    binary.finish()
    checked()
  }

  /** Reads `"key"=>"value", "key"=>NULL`, where a backslash precedes each quote and backslash. */
  override def fromText(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit = {
    pairs.clear()
    var at = from
    while (at < to) {
      if (at > from) at = literal(", ", bytes, at, to)
      at = quoted(bytes, at, to, pairs.keys.text)
      at = literal("=>", bytes, at, to)
      val isNull = at < to && bytes(at) != '"'
      at =
        if (isNull) literal("NULL", bytes, at, to) else quoted(bytes, at, to, pairs.values.text)
      pairs.addPair(isNull)
    }
    checked().write(out)
  }

  /** Skips a text and returns the position after it. */
  private def literal(text: String, bytes: Array[Byte], at: Int, to: Int): Int = {
    val end = at + text.length
    if (end > to || !Ascii.equal(bytes, at, end, text)) throw malformed
    end
  }

  /** Appends a text without its quotes and escapes and returns the position after it. */
  private def quoted(bytes: Array[Byte], from: Int, to: Int, out: TextBuffer): Int = {
    if (from >= to || bytes(from) != '"') throw malformed
    var end = from + 1
    while (end < to && bytes(end) != '"') end += (if (bytes(end) == '\\') 2 else 1)
    if (end >= to) throw malformed
    out.unescaped(bytes, from + 1, end)
    end + 1
  }

  private def checked(): StringMapWriter = {
    if (pairs.hasDuplicateKeys) throw new InvalidValue("has a key twice", "use STRING")
    pairs
  }

  private def malformed = InvalidValue.malformed(PgHstore.name)
}
