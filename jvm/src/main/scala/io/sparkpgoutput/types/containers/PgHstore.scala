package io.sparkpgoutput.types.containers

import org.apache.spark.sql.types.{DataType, MapType, StringType}

import io.sparkpgoutput.types._

/**
 * hstore: MAP<STRING, STRING>. It comes from an extension, so that its oid differs between databases.
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

  override def printer(options: ConversionOptions): Printer = new Printer {
    private val reader = new HstoreReader(PgHstore.name, options.encoding)

    override def print(bytes: Array[Byte], from: Int, to: Int, out: TextBuffer): Unit = {
      reader.fromBinary(bytes, from, to)
      PgHstore.print(reader.pairs, out)
    }
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
  private val reader = new HstoreReader(PgHstore.name, options.encoding)
  private val map = new StringMapWriter

  override def fromText(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit = {
    reader.fromText(bytes, from, to)
    map.write(reader.pairs, out)
  }

  override def fromBinary(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit = {
    reader.fromBinary(bytes, from, to)
    map.write(reader.pairs, out)
  }
}
