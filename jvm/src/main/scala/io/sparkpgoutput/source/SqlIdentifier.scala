package io.sparkpgoutput.source

/** A name as SQL has it, for statements that an error proposes. */
object SqlIdentifier {
  def apply(name: String): String =
    if (name.matches("[a-z_][a-z0-9_$]*")) name else s"\"${name.replace("\"", "\"\"")}\""
}
