package io.sparkpgoutput.types.catalog

import io.sparkpgoutput.types._

/**
 * pg_snapshot and txid_snapshot. The binary value is an int32, the number of open transactions, int64
 * xmin, int64 xmax, and an int64 for each open transaction.
 *
 * @see `pg_snapshot_send`
 */
final class PgSnapshot(name: String) extends PgType(name) {
  override def printer(options: ConversionOptions): Printer = Printer.of(name) { (reader, out) =>
    val count = reader.count(8)
    out.number(reader.int64())
    out.add(':')
    out.number(reader.int64())
    out.add(':')
    out.list(count, ',')(out.number(reader.int64()))
  }
}
