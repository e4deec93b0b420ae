package io.sparkpgoutput.types.text

import io.sparkpgoutput.types._

/**
 * xml. The binary value is the text. If the encoding is not UTF-8, it begins with a declaration of the
 * encoding, which the text does not have. The declaration is not true in UTF-8, so it is left out.
 *
 * @see `src/backend/utils/adt/xml.c`: `xml_out`, `xml_send`, `print_xml_decl`
 */
object PgXml extends PgType("xml") {
  private val Declaration =
    """<\?xml( version="[^"]*")( encoding="[^"]*")( standalone="[^"]*")?\?>""".r
  private val DefaultVersion = """ version="1.0""""

  override def printer(options: ConversionOptions): Printer = {
    val text = new EncodedText(options.encoding)
    if (options.encoding.isUtf8) text
    else
      new Printer {
        private val declared = new TextBuffer

        override def print(bytes: Array[Byte], from: Int, to: Int, out: TextBuffer): Unit = {
          declared.clear()
          text.print(bytes, from, to, declared)
          out.add(withoutEncoding(declared.toString))
        }
      }
  }

  private def withoutEncoding(text: String): String =
    Declaration.findPrefixMatchOf(text) match {
      case None => text
      case Some(declaration) =>
        val content = text.substring(declaration.end)
        val standalone = Option(declaration.group(3)).getOrElse("")
        // A server prints no declaration that says nothing, and no empty first line.
        if (declaration.group(1) == DefaultVersion && standalone.isEmpty) content.stripPrefix("\n")
        else s"<?xml${declaration.group(1)}$standalone?>$content"
    }
}
