package io.sparkpgoutput.types.text

import io.sparkpgoutput.types.{ConversionOptions, EncodedText, PgType, Printer}

/** Types whose binary value is their text: text, varchar, bpchar, name, enums and more. */
final class PgText(name: String) extends PgType(name) {

  /** The modifier of varchar(n) and bpchar(n) is n + 4. */
  override def modifierText(modifier: Int): String = if (modifier < 4) "" else s"(${modifier - 4})"

  override def printer(options: ConversionOptions): Printer = new EncodedText(options.encoding)
}
