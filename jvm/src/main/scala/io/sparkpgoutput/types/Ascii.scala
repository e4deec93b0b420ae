package io.sparkpgoutput.types

/** Text of ASCII in bytes. */
private[sparkpgoutput] object Ascii {

  /** Whether the bytes from `from` up to `to` are this text. */
  def equal(bytes: Array[Byte], from: Int, to: Int, text: String): Boolean =
    to - from == text.length && {
      var index = 0
      while (index < text.length && bytes(from + index) == text.charAt(index)) index += 1
      index == text.length
    }

  /** The value of a hexadecimal digit; -1 for another byte. */
  def hexDigit(byte: Int): Int = hexDigits(byte & 0xff).toInt

  private val hexDigits =
    Array.tabulate(256)(byte => if (byte < 128) Character.digit(byte, 16).toByte else -1: Byte)
}
