package io.sparkpgoutput.types.catalog

import io.sparkpgoutput.protocol.{BigEndian, Lsn}
import io.sparkpgoutput.types.{ConversionOptions, InvalidValue, PgType, Printer}

/** pg_lsn. The binary value is an int64. */
object PgLsn extends PgType("pg_lsn") {
  override def printer(options: ConversionOptions): Printer = (bytes, from, to, out) => {
    InvalidValue.requireSize(name, to - from, 8)
    out.add(Lsn.format(BigEndian.int64(bytes, from)))
  }
}
