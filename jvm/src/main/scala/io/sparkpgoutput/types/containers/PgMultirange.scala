package io.sparkpgoutput.types.containers

import io.sparkpgoutput.types._

/**
 * Multiranges: STRING, such as `{[1,3),[5,8)}`. Binary: int32 number of ranges; for each range int32
 * length and value.
 *
 * @see `multirange_out`, `multirange_send`
 */
final class PgMultirange(name: String, range: PgType) extends PgType(name) {
  override def printer(options: ConversionOptions): Printer = {
    val printer = range.printer(options)
    Printer.of(name) { (reader, out) =>
      val ranges = reader.count(5)
      out.add('{')
      out.list(ranges, ',') {
        val at = reader.take(reader.int32())
        printer.print(reader.bytes, at, reader.position, out)
      }
      out.add('}')
    }
  }
}
