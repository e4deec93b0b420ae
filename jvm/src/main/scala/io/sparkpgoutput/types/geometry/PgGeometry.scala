package io.sparkpgoutput.types.geometry

import io.sparkpgoutput.types._
import io.sparkpgoutput.types.numbers.{IeeeFormat, ShortestDecimal}

/**
 * The geometric types. Their binary values are float8s: x and y of each point, and more.
 *
 * @see
 *   `src/backend/utils/adt/geo_ops.c`: `path_encode` and the output and send functions
 */
abstract class PgGeometry(name: String) extends PgType(name) {

  /** Reads and prints the whole value that `binary` begins. */
  protected def print(binary: BinaryReader, out: TextBuffer): Unit

  final override def printer(options: ConversionOptions): Printer = new Printer {
    private val binary = new BinaryReader(name)

    override def print(bytes: Array[Byte], from: Int, to: Int, out: TextBuffer): Unit = {
      binary.start(bytes, from, to)
      PgGeometry.this.print(binary, out)
      binary.finish()
    }
  }
}

object PgGeometry {
  object Point extends PgGeometry("point") {
    override def print(binary: BinaryReader, out: TextBuffer): Unit = points(binary, 1, out)
  }

  /** The binary value is the two ends. */
  object Lseg extends PgGeometry("lseg") {
    override def print(binary: BinaryReader, out: TextBuffer): Unit =
      within('[', ']', out)(points(binary, 2, out))
  }

  /** The binary value tells whether it is closed, then has the number of points and the points. */
  object Path extends PgGeometry("path") {
    override def print(binary: BinaryReader, out: TextBuffer): Unit = {
      val closed = binary.uint8() match {
        case 0 => false
        case 1 => true
        case _ => throw InvalidValue.malformed(name)
      }
      val count = atLeastOne(name, binary)
      if (closed) within('(', ')', out)(points(binary, count, out))
      else within('[', ']', out)(points(binary, count, out))
    }
  }

  /** The binary value is two corners. */
  object Box extends PgGeometry("box") {
    override def delimiter: Char = ';'
    override def print(binary: BinaryReader, out: TextBuffer): Unit = points(binary, 2, out)
  }

  /** The binary value is the number of points and the points. */
  object Polygon extends PgGeometry("polygon") {
    override def print(binary: BinaryReader, out: TextBuffer): Unit =
      within('(', ')', out)(points(binary, atLeastOne(name, binary), out))
  }

  /** The binary value is A, B and C of Ax + By + C = 0. */
  object Line extends PgGeometry("line") {
    override def print(binary: BinaryReader, out: TextBuffer): Unit =
      within('{', '}', out)(numbers(binary, 3, out))
  }

  /** The binary value is the center and the radius. */
  object Circle extends PgGeometry("circle") {
    override def print(binary: BinaryReader, out: TextBuffer): Unit =
      within('<', '>', out) {
        points(binary, 1, out)
        out.add(',')
        numbers(binary, 1, out)
      }
  }

  private val PointBytes = 16

  private def atLeastOne(typeName: String, binary: BinaryReader): Int = {
    val count = binary.count(PointBytes)
    if (count == 0) throw InvalidValue.malformed(typeName)
    count
  }

  private def within(open: Char, close: Char, out: TextBuffer)(inside: => Unit): Unit = {
    out.add(open)
    inside
    out.add(close)
  }

  private def points(binary: BinaryReader, count: Int, out: TextBuffer): Unit = {
    var index = 0
    while (index < count) {
      if (index > 0) out.add(',')
      within('(', ')', out)(numbers(binary, 2, out))
      index += 1
    }
  }

  private def numbers(binary: BinaryReader, count: Int, out: TextBuffer): Unit = {
    var index = 0
    while (index < count) {
      if (index > 0) out.add(',')
      ShortestDecimal.print(IeeeFormat.Binary64, binary.int64(), out)
      index += 1
    }
  }
}
