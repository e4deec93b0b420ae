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
  def hexDigit(byte: Int): Int = Character.digit(byte, 16)
}
