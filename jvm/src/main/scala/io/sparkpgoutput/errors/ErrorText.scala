package io.sparkpgoutput.errors

/**
 * The text of an error message. It escapes control characters, because names and values in it come
 * from data. Otherwise a value could write its own log line, or show its text in a false order.
 */
object ErrorText {

  /** The text with its control characters escaped, and with a full stop at the end of a sentence. */
  def sentence(text: String): String = {
    val escaped = escape(text)
    // A statement of SQL is complete as it is.
    if (escaped.endsWith(".") || escaped.endsWith(";")) escaped else s"$escaped."
  }

  /**
   * Writes control characters, line separators, unpaired surrogates and invisible format characters
   * as escapes such as `\n` or `\u001b`. Characters that change the direction of text are format
   * characters.
   */
  def escape(text: String): String =
    if (text.codePoints().noneMatch(isUnsafe(_))) text
    else {
      val escaped = new StringBuilder
      text.codePoints().forEach {
        case '\n'                       => escaped ++= "\\n"
        case '\r'                       => escaped ++= "\\r"
        case '\t'                       => escaped ++= "\\t"
        case unsafe if isUnsafe(unsafe) => hex(unsafe, escaped)
        case safe                       => escaped ++= Character.toString(safe)
      }
      escaped.toString
    }

  private def isUnsafe(codePoint: Int): Boolean = Character.getType(codePoint).toByte match {
    case Character.CONTROL | Character.FORMAT | Character.SURROGATE => true
    case Character.LINE_SEPARATOR | Character.PARAGRAPH_SEPARATOR   => true
    case _                                                          => false
  }

  private def hex(codePoint: Int, escaped: StringBuilder): Unit =
    Character.toChars(codePoint).foreach(char => escaped ++= f"\\u${char.toInt}%04x")
}
