package io.sparkpgoutput.types.geometry

import io.sparkpgoutput.types.numbers.{IeeeFormat, ShortestDecimal}
import io.sparkpgoutput.types.{
  BinaryReader,
  ConversionOptions,
  InvalidValue,
  PgType,
  Printer,
  TextBuffer
}

/**
 * The geometric types, whose binary values are float8s: x and y of each point, and more.
 *
 * @see
 *   `src/backend/utils/adt/geo_ops.c`: `path_encode` and the output and send functions
 */
abstract class PgGeometry(name: String) extends PgType(name) {

  /** Prints a value that `binary` is at the beginning of; it is to be read to its end. */
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

  /** Its ends. */
  object Lseg extends PgGeometry("lseg") {
    override def print(binary: BinaryReader, out: TextBuffer): Unit =
      within('[', ']', out)(points(binary, 2, out))
  }

  /** Whether it is closed, the number of points, the points. */
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

  /** Two corners. */
  object Box extends PgGeometry("box") {
    override def delimiter: Char = ';'
    override def print(binary: BinaryReader, out: TextBuffer): Unit = points(binary, 2, out)
  }

  /** The number of points, the points. */
  object Polygon extends PgGeometry("polygon") {
    override def print(binary: BinaryReader, out: TextBuffer): Unit =
      within('(', ')', out)(points(binary, atLeastOne(name, binary), out))
  }

  /** A, B and C of Ax + By + C = 0. */
  object Line extends PgGeometry("line") {
    override def print(binary: BinaryReader, out: TextBuffer): Unit =
      within('{', '}', out)(numbers(binary, 3, out))
  }

  /** The center, the radius. */
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
