package io.sparkpgoutput.types.catalog

import io.sparkpgoutput.protocol.BigEndian
import io.sparkpgoutput.types.{ConversionOptions, InvalidValue, PgType, Printer}

/** tid. The binary value is a uint32, the block, and a uint16, the offset (`tidsend`). */
object PgTid extends PgType("tid") {
  override def printer(options: ConversionOptions): Printer = (bytes, from, to, out) => {
    InvalidValue.requireSize(name, to - from, 6)
    out.add('(')
    out.number(BigEndian.int32(bytes, from) & 0xffffffffL)
    out.add(',')
    out.number(BigEndian.int16(bytes, from + 4) & 0xffffL)
    out.add(')')
  }
}
