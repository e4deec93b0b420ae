package io.sparkpgoutput.types.network

import io.sparkpgoutput.types._

/** macaddr and macaddr8: 6 or 8 bytes, printed as `08:00:2b:01:02:03`. */
final class PgMacAddress(name: String, bytesSent: Int) extends PgType(name) {
  override def printer(options: ConversionOptions): Printer = (bytes, from, to, out) => {
    InvalidValue.requireSize(name, to - from, bytesSent)
    var at = from
    while (at < to) {
      if (at > from) out.add(':')
      out.hex(bytes, at, at + 1)
      at += 1
    }
  }
}
