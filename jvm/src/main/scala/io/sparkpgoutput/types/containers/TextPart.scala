package io.sparkpgoutput.types.containers

import io.sparkpgoutput.types._

/**
 * Reads an element of an array, a field of a composite or a bound of a range from text. A part with
 * special characters is quoted, and a quote in it follows a backslash or is doubled.
 *
 * An instance reads one part after another.
 *
 * @param endings the characters that end a part
 * @param special
 *   the characters that only a quoted part has, in addition to a quote, a backslash and the endings
 * @param doubled whether two quotes are a quote in a quoted part
 * @see `array_out`, `record_out`, `range_deparse`
 */
final class TextPart(typeName: String, endings: String, special: String, doubled: Boolean) {
  private val isEnding = Ascii.set(endings)
  private val endsUnquoted = Ascii.set(endings + special + "\"\\")
  private val withoutEscapes = new TextBuffer

  private var isQuoted = false

  /** Whether a quoted part has backslashes or doubled quotes. */
  private var isEscaped = false
  private var bytes: Array[Byte] = Array.emptyByteArray
  private var from = 0
  private var to = 0

  /** Whether the part is empty and not quoted: a field is NULL, or there is no bound. */
  def isMissing: Boolean = !isQuoted && from == to

  /** Whether the part is the word NULL without quotes, as an element of an array. */
  def isNull: Boolean = !isQuoted && Ascii.isNull(bytes, from, to)

  /** Finds the part at a position and returns the position of the character that ends it. */
  def find(text: Array[Byte], at: Int, end: Int): Int = {
    bytes = text
    isQuoted = at < end && text(at) == '"'
    isEscaped = false
    from = if (isQuoted) at + 1 else at
    to = if (isQuoted) endOfQuoted(text, end) else endOfUnquoted(text, end)
    val last = if (isQuoted) to + 1 else to
    if (last >= end || !isEnding(text(last) & 0xff)) throw malformed
    last
  }

  /** Finds the part at a position and also removes its escapes, so that `write` can write it. */
  def read(text: Array[Byte], at: Int, end: Int): Int = {
    val last = find(text, at, end)
    if (isEscaped) {
      withoutEscapes.clear()
      withoutEscapes.unescaped(text, from, to)
      bytes = withoutEscapes.bytes
      from = 0
      to = withoutEscapes.size
    }
    last
  }

  /** Writes the part that was read last by way of a conversion; NULL if it is missing. */
  def write(conversion: Conversion, out: ValueWriter): Unit =
    if (isMissing) out.setNull() else conversion.fromText(bytes, from, to, out)

  private def endOfUnquoted(text: Array[Byte], end: Int): Int = {
    var at = from
    while (at < end && !endsUnquoted(text(at) & 0xff)) at += 1
    at
  }

  private def endOfQuoted(text: Array[Byte], end: Int): Int = {
    var at = from
    while (at < end && (text(at) != '"' || doubled && at + 1 < end && text(at + 1) == '"')) {
      if (text(at) == '"' || text(at) == '\\') { isEscaped = true; at += 1 }
      at += 1
    }
    at
  }

  private def malformed = InvalidValue.malformed(typeName)
}
