package io.sparkpgoutput.types

/** Types whose binary value is their text: text, varchar, bpchar, name, enums and more. */
final class PgText(name: String) extends PgPrinted(name) {
  override def printer(options: ConversionOptions): Printer = new EncodedText(options.encoding)
}
