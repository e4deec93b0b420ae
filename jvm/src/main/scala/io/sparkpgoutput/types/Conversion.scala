package io.sparkpgoutput.types

import io.sparkpgoutput.protocol.TupleCells

/**
 * Reads values of one type of PostgreSQL's as values of one type of Spark's.
 *
 * A value is given as the bytes of its cell, or of an element or field in it: those at `from` up
 * to, but not including, `to`. A value that does not fit is thrown as [[InvalidValue]]. Not
 * thread-safe.
 */
abstract class Conversion {

  /** Reads the value from its text, in UTF-8. */
  def fromText(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit

  /** Reads the value from what the type's send function made of it. */
  def fromBinary(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit

  /** Reads the value of a cell that has one: of kind t or b. */
  final def fromCell(kind: Int, cells: TupleCells, out: ValueWriter): Unit =
    if (kind == 't') fromText(cells.bytes, cells.from, cells.to, out)
    else fromBinary(cells.bytes, cells.from, cells.to, out)
}
