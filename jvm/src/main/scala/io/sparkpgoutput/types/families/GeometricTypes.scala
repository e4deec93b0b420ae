package io.sparkpgoutput.types.families

import io.sparkpgoutput.types._
import io.sparkpgoutput.types.numbers.{IeeeFormat, ShortestDecimal}

/**
 * The geometric types. Their binary values are float8s: x and y of each point, and more.
 *
 * @see `src/backend/utils/adt/geo_ops.c`: `path_encode` and the output and send functions
 */
final class PgGeometry private (name: String, override val delimiter: Char = ',')(
    print: (BinaryReader, TextBuffer) => Unit
) extends PgType(name) {
  override def printer(options: ConversionOptions): Printer = Printer.of(name)(print)
}

object PgGeometry {
  val Point = new PgGeometry("point")((binary, out) => points(binary, 1, out))

  /** The binary value is the two ends. */
  val Lseg = new PgGeometry("lseg")((binary, out) => within('[', ']', out)(points(binary, 2, out)))

  /** The binary value first says whether it is closed, and then has the number of points and the points. */
  val Path = new PgGeometry("path")((binary, out) => {
    val closed = binary.uint8()
    if (closed > 1) throw InvalidValue.malformed("path")
    val count = atLeastOne("path", binary)
    if (closed == 1) within('(', ')', out)(points(binary, count, out))
    else within('[', ']', out)(points(binary, count, out))
  })

  /** The binary value is two corners. */
  val Box = new PgGeometry("box", delimiter = ';')((binary, out) => points(binary, 2, out))

  /** The binary value is the number of points and the points. */
  val Polygon = new PgGeometry("polygon")((binary, out) =>
    within('(', ')', out)(points(binary, atLeastOne("polygon", binary), out))
  )

  /** The binary value is A, B and C of Ax + By + C = 0. */
  val Line = new PgGeometry("line")((binary, out) => within('{', '}', out)(numbers(binary, 3, out)))

  /** The binary value is the center and the radius. */
  val Circle = new PgGeometry("circle")((binary, out) =>
    within('<', '>', out) {
      points(binary, 1, out)
      out.add(',')
      numbers(binary, 1, out)
    }
  )

  private def atLeastOne(typeName: String, binary: BinaryReader): Int = {
    val count = binary.count(leastBytes = 16)
    if (count == 0) throw InvalidValue.malformed(typeName)
    count
  }

  private def within(open: Char, close: Char, out: TextBuffer)(inside: => Unit): Unit = {
    out.add(open)
    inside
    out.add(close)
  }

  private def points(binary: BinaryReader, count: Int, out: TextBuffer): Unit =
    out.list(count, ',')(within('(', ')', out)(numbers(binary, 2, out)))

  private def numbers(binary: BinaryReader, count: Int, out: TextBuffer): Unit =
    out.list(count, ',')(ShortestDecimal.print(IeeeFormat.Binary64, binary.int64(), out))
}
