package io.sparkpgoutput.types.catalog

import io.sparkpgoutput.types.{ConversionOptions, InvalidValue, PgType, Printer}

/**
 * "char", a single byte. 0 prints as the empty text, and a byte that is not ASCII as a backslash and
 * three octal digits.
 */
object PgChar extends PgType("char") {
  override def printer(options: ConversionOptions): Printer = (bytes, from, to, out) => {
    InvalidValue.requireSize("\"char\"", to - from, 1)
    val byte = bytes(from)
    if (byte > 0) out.add(byte.toInt)
    else if (byte < 0) {
      out.add('\\')
      out.add('0' + (byte >> 6 & 3))
      out.add('0' + (byte >> 3 & 7))
      out.add('0' + (byte & 7))
    }
  }
}
