package io.sparkpgoutput.types.numbers

import io.sparkpgoutput.types.{Conversion, ValueWriter}

/** Reads whole numbers and writes them as one Spark type. */
abstract class LongConversion(reader: LongReader) extends Conversion {
  def write(value: Long, out: ValueWriter): Unit

  final override def fromText(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit =
    write(reader.fromText(bytes, from, to), out)

  final override def fromBinary(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit =
    write(reader.fromBinary(bytes, from, to), out)
}

/** Reads values that are whole numbers of at most 64 bits. */
abstract class LongReader {
  def fromText(bytes: Array[Byte], from: Int, to: Int): Long
  def fromBinary(bytes: Array[Byte], from: Int, to: Int): Long
}
