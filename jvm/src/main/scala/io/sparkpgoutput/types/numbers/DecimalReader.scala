package io.sparkpgoutput.types.numbers

import io.sparkpgoutput.types.TextBuffer

/** Reads the values of a type as decimal numbers. */
abstract class DecimalReader {
  def fromText(bytes: Array[Byte], from: Int, to: Int, number: DecimalNumber): Unit
  def fromBinary(bytes: Array[Byte], from: Int, to: Int, number: DecimalNumber): Unit

  /** Prints a binary value with all its digits. */
  def print(bytes: Array[Byte], from: Int, to: Int, out: TextBuffer): Unit
}
