package io.sparkpgoutput.types

/** Compares and classifies bytes of ASCII text. */
object Ascii {

  /** Returns whether the bytes from `from` up to `to` are this text. */
  def equal(bytes: Array[Byte], from: Int, to: Int, text: String): Boolean =
    to - from == text.length && {
      var index = 0
      while (index < text.length && bytes(from + index) == text.charAt(index)) index += 1
      index == text.length
    }

  /** Returns whether the bytes from `from` up to `to` are NULL in any case. */
  def isNull(bytes: Array[Byte], from: Int, to: Int): Boolean =
    to - from == 4 && lowerCase(bytes(from)) == 'n' && lowerCase(bytes(from + 1)) == 'u' &&
      lowerCase(bytes(from + 2)) == 'l' && lowerCase(bytes(from + 3)) == 'l'

  private def lowerCase(byte: Byte): Int = if (byte >= 'A' && byte <= 'Z') byte + 32 else byte.toInt

  /** What PostgreSQL takes as white space (`scanner_isspace`, with the vertical tab). */
  final val Spaces = " \t\n\u000b\f\r"

  /** Returns for each byte whether it is one of these characters. */
  def set(characters: String): Array[Boolean] = Array.tabulate(256)(characters.indexOf(_) >= 0)

  /** Returns the value of a hexadecimal digit, or -1 for another byte. */
  def hexDigit(byte: Int): Int = hexDigits(byte & 0xff).toInt

  private val hexDigits =
    Array.tabulate(256)(byte => if (byte < 128) Character.digit(byte, 16).toByte else -1: Byte)
}

/** The powers of ten that fit in 64 bits without a sign: 10^0 to 10^19. */
object PowersOfTen {
  final val Greatest = 19

  private val powers = Array.iterate(1L, Greatest + 1)(_ * 10)

  /** Returns the power, a number without a sign. The exponent is 0 to 19. */
  def apply(exponent: Int): Long = powers(exponent)

  /**
   * Returns whether a number without a sign has at most `digits` digits. 0 has no digit.
   */
  def hasDigits(number: Long, digits: Int): Boolean =
    digits > Greatest ||
      java.lang.Long.compareUnsigned(number, powers(math.max(digits, 0))) < 0

  /** Returns the number of digits of a number without a sign. 0 has no digit. */
  def digits(number: Long): Int = {
    // 1233 / 2^12 is the decimal logarithm of two. The result is exact or one too small.
    val least = (64 - java.lang.Long.numberOfLeadingZeros(number)) * 1233 >> 12
    if (hasDigits(number, least)) least else least + 1
  }
}
