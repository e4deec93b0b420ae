package io.sparkpgoutput.types.catalog

import io.sparkpgoutput.types.{ConversionOptions, InvalidValue, PgType, Printer, TextBuffer}

/** aclitem, which has no send function: even where binary is asked for it comes as text. */
object PgAclItem extends PgType("aclitem") {
  override def printer(options: ConversionOptions): Printer = new Printer {
    override def print(bytes: Array[Byte], from: Int, to: Int, out: TextBuffer): Unit =
      throw new InvalidValue("is binary, which type aclitem has no form for")
  }
}
