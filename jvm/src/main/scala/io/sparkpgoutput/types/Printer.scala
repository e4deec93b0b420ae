package io.sparkpgoutput.types

/**
 * Prints the binary values of one type as a server does with DateStyle ISO, IntervalStyle postgres,
 * bytea_output hex, extra_float_digits 1 and, unless an option says otherwise, time zone UTC.
 */
abstract class Printer {

  /** Appends the text of the value in the bytes from `from` up to `to`, in UTF-8. */
  def print(bytes: Array[Byte], from: Int, to: Int, out: TextBuffer): Unit
}

object Printer {

  /** Prints the values of a type part by part. It checks that nothing follows the last part. */
  def of(typeName: String)(print: (BinaryReader, TextBuffer) => Unit): Printer = {
    val reader = new BinaryReader(typeName)
    (bytes, from, to, out) => {
      reader.start(bytes, from, to)
      print(reader, out)
      reader.finish()
    }
  }
}
