package io.sparkpgoutput.types.containers

import io.sparkpgoutput.types.{Ascii, InvalidValue, TextBuffer}

/**
 * Reads a field of a composite or a bound of a range from text. It ends before a comma or the end of
 * the value. A field with special characters is quoted, and a quote in it is doubled or follows a
 * backslash.
 *
 * @param endings the characters that end the value
 * @see `record_out`, `range_deparse`
 */
final class TextField(typeName: String, endings: String) {
  private val unescaped = new TextBuffer

  /** Tells whether the field is empty and not quoted: it is NULL, or there is no bound. */
  var isMissing = false
  var bytes: Array[Byte] = Array.emptyByteArray
  var from = 0
  var to = 0

  /** Reads the field at a position and returns the position of the character that ends it. */
  def read(text: Array[Byte], at: Int, end: Int): Int = {
    bytes = text
    from = at
    val last =
      if (at < end && text(at) == '"') quoted(text, at, end) else unquoted(text, at, end)
    if (last >= end || !isEnding(text(last))) throw malformed
    last
  }

  private def unquoted(text: Array[Byte], at: Int, end: Int): Int = {
    to = at
    while (to < end && !isEnding(text(to))) {
      if (text(to) == '"' || text(to) == '\\' || text(to) == '(') throw malformed
      to += 1
    }
    isMissing = to == at
    to
  }

  private def quoted(text: Array[Byte], at: Int, end: Int): Int = {
    isMissing = false
    unescaped.clear()
    var index = at + 1
    var open = true
    while (open) {
      if (index + 1 >= end) throw malformed
      if (text(index) == '\\' || text(index) == '"' && text(index + 1) == '"') {
        unescaped.add(text(index + 1).toInt)
        index += 2
      } else {
        open = text(index) != '"'
        if (open) unescaped.add(text(index).toInt)
        index += 1
      }
    }
    bytes = unescaped.bytes
    from = 0
    to = unescaped.size
    index
  }

  private def isEnding(byte: Byte) = byte == ',' || endings.indexOf(byte.toInt) >= 0

  private def malformed = InvalidValue.malformed(typeName)
}

object TextField {

  /** Prints a field, in quotes if it is empty or has a special character. */
  def print(field: TextBuffer, special: String, out: TextBuffer): Unit = {
    val bytes = field.bytes
    var index = 0
    while (index < field.size && isPlain(bytes(index), special)) index += 1
    if (field.size > 0 && index == field.size) out.add(bytes, 0, field.size)
    else out.quoted(bytes, 0, field.size, quote = '"', escape = '"')
  }

  private def isPlain(byte: Byte, special: String) =
    !Ascii.isSpace(byte) && special.indexOf(byte.toInt) < 0
}
