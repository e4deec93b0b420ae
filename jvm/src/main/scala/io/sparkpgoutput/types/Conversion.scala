package io.sparkpgoutput.types

import io.sparkpgoutput.protocol.TupleCells

/**
 * Reads the values of a PostgreSQL type as values of a Spark type.
 *
 * A value is the bytes of a cell, or of an element or field in it, from `from` up to but not
 * including `to`. If a value does not fit, the conversion throws [[InvalidValue]]. Not thread-safe.
 */
abstract class Conversion {

  /** Reads the value from its text, in UTF-8. */
  def fromText(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit

  /** Reads the value from the bytes that the type's send function wrote. */
  def fromBinary(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit

  /** Reads the value of a cell of kind t or b. */
  final def fromCell(kind: Int, cells: TupleCells, out: ValueWriter): Unit =
    if (kind == 't') fromText(cells.bytes, cells.from, cells.to, out)
    else fromBinary(cells.bytes, cells.from, cells.to, out)
}
