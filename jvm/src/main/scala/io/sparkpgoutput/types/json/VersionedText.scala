package io.sparkpgoutput.types.json

import io.sparkpgoutput.protocol.TextEncoding
import io.sparkpgoutput.types.{EncodedText, InvalidValue, Printer, TextBuffer}

/**
 * Prints binary values that are a version, the byte 1, and the printed text.
 *
 * @see `jsonb_send`, `jsonpath_send`
 */
final class VersionedText(typeName: String, encoding: TextEncoding) extends Printer {
  private val text = new EncodedText(encoding)

  override def print(bytes: Array[Byte], from: Int, to: Int, out: TextBuffer): Unit = {
    if (from == to) throw InvalidValue.malformed(typeName)
    if (bytes(from) != 1) {
      throw new InvalidValue(s"has version ${bytes(from) & 0xff} of the binary form of $typeName")
    }
    text.print(bytes, from + 1, to, out)
  }
}
