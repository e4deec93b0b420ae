package io.sparkpgoutput.types

/**
 * Prints binary values of one type as a server prints them with DateStyle ISO, IntervalStyle
 * postgres, bytea_output hex, extra_float_digits 1 and, but for the option, time zone UTC.
 */
abstract class Printer {

  /** Appends the text, in UTF-8, of the value that is in the bytes from `from` up to `to`. */
  def print(bytes: Array[Byte], from: Int, to: Int, out: TextBuffer): Unit
}
