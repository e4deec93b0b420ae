package io.sparkpgoutput.types.catalog

import io.sparkpgoutput.types._

/** aclitem. It has no send function, so that a server sends it as text, even in binary mode. */
object PgAclItem extends PgType("aclitem") {
  override def printer(options: ConversionOptions): Printer = new Printer {
    override def print(bytes: Array[Byte], from: Int, to: Int, out: TextBuffer): Unit =
      throw new InvalidValue("is binary, but an aclitem has no binary form")
  }
}
