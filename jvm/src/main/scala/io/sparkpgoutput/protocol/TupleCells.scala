package io.sparkpgoutput.protocol

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.UTF8String

/** The cells of a tuple, which are gone through from the first to the last. */
abstract private[sparkpgoutput] class TupleCells {

  /** The number of columns. */
  def columns: Int

  /** Goes on to a column, from 0 and never back; returns its kind: n, u, t or b. */
  def goTo(column: Int): Int

  /** The value of the cell, of kind t or b: the bytes from `from` up to `to`. */
  var bytes: Array[Byte] = Array.emptyByteArray
  var from = 0
  var to = 0
}

/** Those of a struct of [[TupleSchema]]. */
final private[sparkpgoutput] class StructCells extends TupleCells {
  private var kinds: UTF8String = _
  private var text: ArrayData = _
  private var binary: ArrayData = _

  /**
   * Begins with a tuple.
   *
   * @throws SchemaMismatchException
   *   where its members do not go together, for they may come from anywhere
   */
  def start(tuple: InternalRow): Unit = {
    kinds = if (tuple.isNullAt(TupleSchema.KINDS)) null else tuple.getUTF8String(TupleSchema.KINDS)
    text = array(tuple, TupleSchema.TEXT)
    binary = array(tuple, TupleSchema.BINARY)
    if (kinds == null || !isWhole(text) || !isWhole(binary)) {
      throw new SchemaMismatchException(
        "the tuple is none of pgoutput_decode's: its kinds, text and binary differ in length;"
      )
    }
  }

  private def array(tuple: InternalRow, member: Int): ArrayData =
    if (tuple.isNullAt(member)) null else tuple.getArray(member)

  private def isWhole(cells: ArrayData) = cells == null || cells.numElements() == kinds.numBytes

  override def columns: Int = kinds.numBytes

  override def goTo(column: Int): Int = {
    val kind = kinds.getByte(column).toInt
    if (kind == 't')
      setText(if (hasValue(text, column)) text.getUTF8String(column) else other(column))
    else if (kind == 'b') {
      setBytes(if (hasValue(binary, column)) binary.getBinary(column) else other(column))
    } else if (kind != 'n' && kind != 'u') other(column)
    kind
  }

  private def hasValue(cells: ArrayData, column: Int) = cells != null && !cells.isNullAt(column)

  private def other(column: Int) = throw new SchemaMismatchException(
    s"the tuple is none of pgoutput_decode's: its kinds are '$kinds', and column ${column + 1} has " +
      "no such value;"
  )

  private def setText(value: UTF8String): Unit = value.getBaseObject match {
    case array: Array[Byte] => // as it is, without a copy
      bytes = array
      from = (value.getBaseOffset - Platform.BYTE_ARRAY_OFFSET).toInt
      to = from + value.numBytes
    case _ => setBytes(value.getBytes)
  }

  private def setBytes(value: Array[Byte]): Unit = {
    bytes = value
    from = 0
    to = value.length
  }
}

/** Those in the bytes of a message that has been checked. */
final private[sparkpgoutput] class MessageCells extends TupleCells {
  private var number = 0
  private var column = 0
  private var next = 0

  /** Begins with a tuple that was handed on as it stood in its message. */
  def start(tuple: Array[Byte]): Unit =
    start(tuple, TupleDecoder.TupleHead, BigEndian.int16(tuple, 0) & 0xffff)

  def start(message: Array[Byte], firstCell: Int, columns: Int): Unit = {
    if (bytes ne message) bytes = message
    next = firstCell
    column = 0
    number = columns
  }

  override def columns: Int = number

  override def goTo(wanted: Int): Int = {
    var at = next
    while (column < wanted) {
      at = TupleDecoder.cellEnd(bytes, at, bytes.length)
      column += 1
    }
    from = at + TupleDecoder.CellHead
    to = TupleDecoder.cellEnd(bytes, at, bytes.length)
    column += 1
    next = to
    bytes(at).toInt
  }
}
