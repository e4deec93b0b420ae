package io.sparkpgoutput.types.json

import io.sparkpgoutput.types.{ConversionOptions, PgType, Printer}

object PgJsonPath extends PgType("jsonpath") {
  override def printer(options: ConversionOptions): Printer =
    new VersionedText(name, options.encoding)
}
