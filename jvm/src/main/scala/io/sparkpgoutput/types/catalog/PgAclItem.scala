package io.sparkpgoutput.types.catalog

import io.sparkpgoutput.types.{ConversionOptions, InvalidValue, PgType, Printer}

/** aclitem. It has no send function, so that a server sends it as text, even in binary mode. */
object PgAclItem extends PgType("aclitem") {
  override def printer(options: ConversionOptions): Printer = (_, _, _, _) =>
    throw new InvalidValue("is binary, but an aclitem has no binary form")
}
