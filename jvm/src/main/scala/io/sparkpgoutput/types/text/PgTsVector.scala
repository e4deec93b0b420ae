package io.sparkpgoutput.types.text

import io.sparkpgoutput.types._

/**
 * tsvector. The binary value is an int32, the number of lexemes; for each lexeme its text, a uint16
 * number of positions, and each position as uint16, with the weight (3 to 0: A to D) in the two upper
 * bits.
 *
 * @see `src/backend/utils/adt/tsvector.c`: `tsvectorsend`, `tsvectorout`
 */
object PgTsVector extends PgType("tsvector") {
  private val LeastBytes = 3

  override def printer(options: ConversionOptions): Printer = {
    val lexeme = new Lexeme(name, options.encoding)
    Printer.of(name) { (binary, out) =>
      out.list(binary.count(LeastBytes), ' ') {
        val text = lexeme.read(binary)
        out.add(text.bytes, 0, text.size)
        printPositions(binary, out)
      }
    }
  }

  private def printPositions(binary: BinaryReader, out: TextBuffer): Unit = {
    val count = binary.uint16()
    if (count > 0) out.add(':')
    out.list(count, ',') {
      val position = binary.uint16()
      out.number(position & 0x3fffL)
      position >> 14 match {
        case 3 => out.add('A')
        case 2 => out.add('B')
        case 1 => out.add('C')
        case _ => // a server does not print D
      }
    }
  }
}
