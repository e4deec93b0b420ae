package io.sparkpgoutput.types.text

import io.sparkpgoutput.protocol.TextEncoding
import io.sparkpgoutput.types.{BinaryReader, EncodedText, InvalidValue, TextBuffer}

/** Reads a word of a tsvector or tsquery: text that ends with a 0, and prints as `'it''s'`. */
final class Lexeme(typeName: String, encoding: TextEncoding) {
  private val decoder = new EncodedText(encoding)
  private val text = new TextBuffer
  private val quoted = new TextBuffer

  /** Reads a word and quotes it. The next word overwrites it. */
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
