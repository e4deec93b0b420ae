package io.sparkpgoutput.types

import io.sparkpgoutput.protocol.TextEncoding

/** Prints the text inside binary values, which has the encoding of the messages. */
final class EncodedText(encoding: TextEncoding) extends Printer {
  override def print(bytes: Array[Byte], from: Int, to: Int, out: TextBuffer): Unit =
    if (encoding.isUtf8) {
      if (!TextEncoding.isValidUtf8(bytes, from, to - from)) throw invalid
      out.add(bytes, from, to)
    } else {
      val utf8 = encoding.toUtf8(bytes, from, to - from)
      if (utf8 == null) throw invalid
      out.add(utf8, 0, utf8.length)
    }

  private def invalid =
    new InvalidValue(s"has text that is not valid $encoding", "use the option encoding")
}
