package io.sparkpgoutput.types

object PgJsonPath extends PgPrinted("jsonpath") {
  override def printer(options: ConversionOptions): Printer =
    new VersionedText(name, options.encoding)
}
