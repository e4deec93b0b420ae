package io.sparkpgoutput.types.binary

import io.sparkpgoutput.types.{ConversionOptions, InvalidValue, PgType, Printer}

/** uuid: 16 bytes, printed as `a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11`. */
object PgUuid extends PgType("uuid") {
  override def printer(options: ConversionOptions): Printer = (bytes, from, to, out) => {
    InvalidValue.requireSize(name, to - from, 16)
    out.hex(bytes, from, from + 4)
    out.add('-')
    out.hex(bytes, from + 4, from + 6)
    out.add('-')
    out.hex(bytes, from + 6, from + 8)
    out.add('-')
    out.hex(bytes, from + 8, from + 10)
    out.add('-')
    out.hex(bytes, from + 10, to)
  }
}
