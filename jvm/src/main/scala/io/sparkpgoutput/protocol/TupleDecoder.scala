package io.sparkpgoutput.protocol

/** The tuples of row changes: TupleData in the PostgreSQL documentation, `logicalrep_write_tuple`. */
abstract private[protocol] class TupleDecoder(encoding: TextEncoding)
    extends FieldDecoder(encoding) {

  /**
   * TupleData: number of columns; for each its kind and, of text and binary ones, length and value.
   * The struct is kinds, text, binary.
   */
  final protected def tuple(field: Int): Unit = {
    val columns = in.count(in.uint16(field, "columns").toLong, leastBytes = 1, field, "columns")
    val head = row.openStruct(3)
    val kinds = row.openBytes(head, row.slot(head, 0), columns)
    val cells = in.position
    val binaryCells = textArray(field, head, kinds, columns)
    if (binaryCells == 0) row.setNullMember(head, 2)
    else {
      in.rewind(cells)
      binaryArray(field, head, columns)
    }
    row.setNested(field, head)
  }

  /** Reads a tuple's cells, writes their kinds and the array of the text ones; counts the binary. */
  private def textArray(field: Int, tuple: Int, kinds: Int, columns: Int): Int = {
    val head = row.openArray(columns)
    val slots = row.firstSlot(head, columns)
    var binaryCells = 0
    var cell = 0
    while (cell < columns && in.ok) {
      in.column = cell + 1
      val kind = in.uint8(field)
      row.putByte(kinds + cell, kind)
      kind match {
        case 't' => text(head, slots + 8 * cell, in.length(field), field, null)
        case 'b' =>
          in.skip(in.length(field))
          row.setNullElement(head, cell)
          binaryCells += 1
        case 'n' | 'u' => row.setNullElement(head, cell)
        case other     => unexpected(field, "kind", other, "n, u, t or b")
      }
      cell += 1
    }
    in.column = 0
    row.closeNested(tuple, row.slot(tuple, 1), head)
    binaryCells
  }

  /** Reads cells that have been checked once more, and writes the array of the binary ones. */
  private def binaryArray(field: Int, tuple: Int, columns: Int): Unit = {
    val head = row.openArray(columns)
    val slots = row.firstSlot(head, columns)
    var cell = 0
    while (cell < columns && in.ok) {
      val kind = in.uint8(field)
      val size = if (kind == 't' || kind == 'b') in.length(field) else 0
      if (kind == 'b') row.putBytes(head, slots + 8 * cell, in.message, in.position, size)
      else row.setNullElement(head, cell)
      in.skip(size)
      cell += 1
    }
    row.closeNested(tuple, row.slot(tuple, 2), head)
  }
}
