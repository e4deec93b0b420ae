package io.sparkpgoutput.types.text

import io.sparkpgoutput.protocol.TextEncoding
import io.sparkpgoutput.types.{BinaryReader, EncodedText, InvalidValue, TextBuffer}

/** A word of a tsvector or tsquery: text that a 0 ends, printed as `'it''s'`. */
final class Lexeme(typeName: String, encoding: TextEncoding) {
  private val decoder = new EncodedText(encoding)
  private val text = new TextBuffer
  private val quoted = new TextBuffer

  /** Reads one; given between quotes, quotes and backslashes doubled, until the next is read. */
  def read(binary: BinaryReader): TextBuffer = {
    val from = binary.position
    var size = 0
    while (size < binary.left && binary.bytes(from + size) != 0) size += 1
    if (size == binary.left) throw InvalidValue.malformed(typeName)
    binary.take(size + 1)
    text.clear()
    decoder.print(binary.bytes, from, from + size, text)
    quoted.clear()
    quoted.quoted(text.bytes, 0, text.size, quote = '\'', escape = '\'')
    quoted
  }
}
