package io.sparkpgoutput.types.text

import io.sparkpgoutput.types.{ConversionOptions, EncodedText, PgType, Printer}

/** A type whose binary value is its text: text, varchar, bpchar, name, an enum and others. */
final class PgText(name: String) extends PgType(name) {

  /** The modifier of varchar(n) and bpchar(n) is n + 4. */
  override def modifierText(modifier: Int): String = if (modifier < 4) "" else s"(${modifier - 4})"

  override def printer(options: ConversionOptions): Printer = new EncodedText(options.encoding)
}
