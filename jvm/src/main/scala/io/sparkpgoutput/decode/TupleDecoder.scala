package io.sparkpgoutput.decode

import io.sparkpgoutput.protocol.{EncodedTuple, MessageSchema, TextEncoding, TupleSchema}

import MessageSchema.{KEY, NEW, OLD}
import StructLayout.Absent
import EncodedTuple.{CellHead, TupleHead, cellEnd}
import TupleSchema.{BINARY, KINDS, TEXT}

/**
 * The tuples of row changes: TupleData in the PostgreSQL documentation, `logicalrep_write_tuple`.
 */
abstract class TupleDecoder(encoding: TextEncoding, selection: FieldSelection)
    extends FieldDecoder(encoding, selection) {
  import TupleDecoder._

  private val firstCells = new Array[Int](MessageSchema.schema.length)
  private val columnCounts = new Array[Int](MessageSchema.schema.length)
  private val walked = new EncodedTuple

  /** Forgets the tuples of the previous message. */
  final protected def resetTuples(): Unit = {
    firstCells(KEY) = NoTuple
    firstCells(OLD) = NoTuple
    firstCells(NEW) = NoTuple
  }

  /**
   * Begins with the cells of a tuple of the message that was read last; false if it has no such tuple.
   */
  final def cells(field: Int, cells: EncodedTuple): Boolean = {
    val hasTuple = firstCells(field) != NoTuple
    if (hasTuple) cells.start(in.message, firstCells(field), columnCounts(field))
    hasTuple
  }

  /**
   * TupleData: number of columns; for each its kind and, of text and binary ones, length and value.
   * The struct is kinds, text, binary.
   */
  final protected def tuple(field: Int): Unit = {
    val columns = in.count(in.uint16(field, "columns").toLong, leastBytes = 1, field, "columns")
    in.lookAhead()
    firstCells(field) = in.position
    columnCounts(field) = columns
    val wanted = kept && struct.slot(0, field) >= 0
    if (!wanted && textIsCopied) checkCells(field, columns)
    else writeTuple(field, columns, if (wanted) struct.struct(field) else Unwanted)
  }

  /** Writes what is selected of a tuple, in the order of the struct's members. */
  private def writeTuple(field: Int, columns: Int, members: StructLayout): Unit = {
    val texts = members.elements(TEXT)
    val head = row.openStruct(members)
    val kinds = row.openBytes(head, members.slot(head, KINDS), columns)
    var binaryCells = 0
    if (textIsCopied && isChecked(members)) checkCells(field, columns)
    else {
      val text = if (texts == null) members.slot(head, TEXT) else Absent
      binaryCells = textArray(field, head, text, kinds, columns)
    }
    if (texts != null && in.ok) textElements(head, members.slot(head, TEXT), field, texts)
    if (binaryCells == 0) row.setNullMember(head, members, BINARY)
    else if (in.ok) binaryArray(field, head, members.slot(head, BINARY))
    if (members.cellsSlot(head) >= 0 && in.ok) {
      val start = firstCells(field) - TupleHead
      row.putBytes(head, members.cellsSlot(head), in.message, start, in.position - start)
    }
    row.setNested(field, head)
  }

  /**
   * Skips the cells of a tuple if no part of them is written and their text is known to be valid.
   * The position is in a local variable, as in `textArray`.
   */
  private def checkCells(field: Int, columns: Int): Unit = {
    val message = in.message
    val end = in.end
    var at = in.position
    var cell = 0
    while (cell < columns && at >= 0) {
      val next = cellEnd(message, at, end)
      at = if (next < 0) malformedCell(field, cell, at) else next
      cell += 1
    }
    if (at >= 0) in.moveTo(at)
  }

  /**
   * Reads a tuple's cells, writes their kinds and the array of the text ones; returns the number of
   * binary ones.
   *
   * Decoding spends most of its time here. So the positions in the message and in the row are in
   * local variables: as fields, they would be stored with each cell and loaded again for the next.
   */
  private def textArray(field: Int, tuple: Int, slot: Int, kinds: Int, columns: Int): Int = {
    val array = row.openArray(slot, columns)
    val message = in.message
    val messageEnd = in.end
    val copied = textIsCopied
    var at = in.position
    var end = row.position
    var binaryCells = 0
    var cell = 0
    while (cell < columns && at >= 0) {
      val next = cellEnd(message, at, messageEnd)
      if (next < 0) at = malformedCell(field, cell, at)
      else {
        val kind = message(at).toInt
        row.putByte(kinds, cell, kind)
        if (kind == 't') {
          val element = row.elementSlot(array, columns, cell)
          val size = next - at - CellHead
          end =
            if (copied) row.write(end, array, element, message, at + CellHead, size)
            else text(end, array, element, at + CellHead, size)
        } else {
          row.setNullElement(array, columns, cell)
          if (kind == 'b') binaryCells += 1
        }
        at = if (end < 0) malformedCell(field, cell, at) else next
      }
      cell += 1
    }
    if (at >= 0) {
      in.moveTo(at)
      row.moveTo(end)
      row.closeNested(tuple, slot, array)
    }
    binaryCells
  }

  /** Writes the array of the text cells, of which only some elements are selected. */
  private def textElements(tuple: Int, slot: Int, field: Int, wanted: Array[Int]): Unit = {
    val columns = columnCounts(field)
    val array = row.openNullArray(slot, columns)
    cells(field, walked)
    var i = 0
    while (i < wanted.length && wanted(i) < columns) {
      if (walked.goTo(wanted(i)) == 't') {
        row.setNotNullElement(array, wanted(i))
        val element = row.elementSlot(array, columns, wanted(i))
        row.moveTo(text(row.position, array, element, walked.from, walked.to - walked.from))
      }
      i += 1
    }
    row.closeNested(tuple, slot, array)
  }

  /** Lets the reader fail at a malformed cell; returns -1 in place of a position. */
  private def malformedCell(field: Int, cell: Int, at: Int): Int = {
    in.moveTo(at)
    in.column = cell + 1
    in.uint8(field) match {
      case 't'  => in.length(field); notInEncoding(field, null)
      case 'b'  => in.length(field)
      case kind => unexpected(field, "kind", kind, "n, u, t or b")
    }
    in.column = 0
    -1
  }

  /** Reads cells again that have been checked, and writes the array of the binary ones. */
  private def binaryArray(field: Int, tuple: Int, slot: Int): Unit = if (slot >= 0) {
    val columns = columnCounts(field)
    val array = row.openArray(slot, columns)
    cells(field, walked)
    var cell = 0
    while (cell < columns) {
      if (walked.goTo(cell) == 'b') {
        val element = row.elementSlot(array, columns, cell)
        row.putBytes(array, element, walked.bytes, walked.from, walked.to - walked.from)
      } else row.setNullElement(array, columns, cell)
      cell += 1
    }
    row.closeNested(tuple, slot, array)
  }
}

object TupleDecoder {
  final private val NoTuple = -1
  private val Unwanted = new StructLayout(TupleSchema.schema, FieldSelection.Unused)

  /** Returns whether the selected members can be written after all cells have been checked. */
  private def isChecked(members: StructLayout) =
    members.slot(0, KINDS) < 0 && members.slot(0, BINARY) < 0 &&
      (members.slot(0, TEXT) < 0 || members.elements(TEXT) != null)
}
