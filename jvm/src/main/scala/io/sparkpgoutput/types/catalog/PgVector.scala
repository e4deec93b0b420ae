package io.sparkpgoutput.types.catalog

import io.sparkpgoutput.types._

/**
 * int2vector and oidvector: arrays of one dimension without NULLs, with spaces between the elements.
 *
 * @see `int2vectorsend`, `oidvectorsend`
 */
final class PgVector(name: String, element: PgType) extends PgType(name) {
  override def printer(options: ConversionOptions): Printer = {
    val printer = element.printer(options)
    Printer.of(name) { (reader, out) =>
      val dimensions = reader.int32()
      if (dimensions < 0 || dimensions > 1) throw InvalidValue.malformed(name)
      reader.int32() // whether there are NULLs
      reader.int32() // the element type
      if (dimensions == 1) {
        val count = reader.count(4)
        reader.int32() // the lower bound
        out.list(count, ' ') {
          val at = reader.take(reader.int32())
          printer.print(reader.bytes, at, reader.position, out)
        }
      }
    }
  }
}
