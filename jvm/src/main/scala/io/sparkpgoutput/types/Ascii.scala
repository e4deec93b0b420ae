package io.sparkpgoutput.types

/** Compares and classifies bytes of ASCII text. */
object Ascii {

  /** Tells whether the bytes from `from` up to `to` are this text. */
  def equal(bytes: Array[Byte], from: Int, to: Int, text: String): Boolean =
    to - from == text.length && {
      var index = 0
      while (index < text.length && bytes(from + index) == text.charAt(index)) index += 1
      index == text.length
    }

  /** Tells whether the bytes are this text in any case. `text` is in lower case. */
  def equalIgnoreCase(bytes: Array[Byte], from: Int, to: Int, text: String): Boolean =
    to - from == text.length && {
      var index = 0
      while (index < text.length && lowerCase(bytes(from + index)) == text.charAt(index)) index += 1
      index == text.length
    }

  private def lowerCase(byte: Byte): Int = if (byte >= 'A' && byte <= 'Z') byte + 32 else byte.toInt

  /** Tells whether PostgreSQL takes a byte as white space (`scanner_isspace`, with the vertical tab). */
  def isSpace(byte: Byte): Boolean = byte == ' ' || byte >= 9 && byte <= 13

  /** Returns the value of a hexadecimal digit, or -1 for another byte. */
  def hexDigit(byte: Int): Int = hexDigits(byte & 0xff).toInt

  private val hexDigits =
    Array.tabulate(256)(byte => if (byte < 128) Character.digit(byte, 16).toByte else -1: Byte)
}
