package io.sparkpgoutput.types.numbers

/** Reads values that are whole numbers of at most 64 bits. */
abstract class LongReader {
  def fromText(bytes: Array[Byte], from: Int, to: Int): Long
  def fromBinary(bytes: Array[Byte], from: Int, to: Int): Long
}
