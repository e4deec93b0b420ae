package io.sparkpgoutput.protocol

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.UTF8String

import io.sparkpgoutput.errors.PgOutputException

/** The cells of a tuple, which are read from the first to the last. */
abstract class TupleCells {

  /** The number of columns. */
  def columns: Int

  /** Goes to a column, counted from 0, and returns its kind: n, u, t or b. Each call goes to a later column. */
  def goTo(column: Int): Int

  /** The value of the cell, of kind t or b: the bytes from `from` up to `to`. */
  var bytes: Array[Byte] = Array.emptyByteArray
  var from = 0
  var to = 0
}

/** The cells of a decoded tuple, a struct of [[TupleSchema]]. */
final class DecodedTuple extends TupleCells {
  private var kinds: UTF8String = _
  private var text: ArrayData = _
  private var binary: ArrayData = _

  /**
   * Begins with a tuple.
   *
   * @throws PgOutputException
   *   if its members do not match: a user may pass any struct of this type
   */
  def start(tuple: InternalRow): Unit = {
    kinds = if (tuple.isNullAt(TupleSchema.KINDS)) null else tuple.getUTF8String(TupleSchema.KINDS)
    text = if (tuple.isNullAt(TupleSchema.TEXT)) null else tuple.getArray(TupleSchema.TEXT)
    binary = if (tuple.isNullAt(TupleSchema.BINARY)) null else tuple.getArray(TupleSchema.BINARY)
    if (kinds == null || !isWhole(text) || !isWhole(binary)) {
      throw new PgOutputException("PGOUTPUT_SCHEMA_MISMATCH.TUPLE_LENGTHS")
    }
  }

  private def isWhole(cells: ArrayData) = cells == null || cells.numElements() == kinds.numBytes

  override def columns: Int = kinds.numBytes

  override def goTo(column: Int): Int = {
    val kind = kinds.getByte(column).toInt
    if (kind == 't' && hasValue(text, column)) setText(text.getUTF8String(column))
    else if (kind == 'b' && hasValue(binary, column)) setBytes(binary.getBinary(column))
    else if (kind != 'n' && kind != 'u') other(column)
    kind
  }

  private def hasValue(cells: ArrayData, column: Int) = cells != null && !cells.isNullAt(column)

  private def other(column: Int) = throw new PgOutputException(
    "PGOUTPUT_SCHEMA_MISMATCH.TUPLE_KIND",
    "kinds" -> kinds,
    "column" -> (column + 1)
  )

  private def setText(value: UTF8String): Unit = value.getBaseObject match {
    case array: Array[Byte] => // no copy is needed
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

/** The cells in the bytes of a message that has been checked. */
final class EncodedTuple extends TupleCells {
  private var number = 0
  private var column = 0
  private var next = 0

  /** Starts to read a tuple from its bytes in a message. */
  def start(tuple: Array[Byte]): Unit =
    start(tuple, EncodedTuple.TupleHead, BigEndian.int16(tuple, 0) & 0xffff)

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
      at = EncodedTuple.cellEnd(bytes, at, bytes.length)
      column += 1
    }
    from = at + EncodedTuple.CellHead
    to = EncodedTuple.cellEnd(bytes, at, bytes.length)
    column += 1
    next = to
    bytes(at).toInt
  }
}

object EncodedTuple {

  /**
   * The end of the cell that begins at a position: n and u are their kind only, t and b have a uint32
   * length and so many bytes. -1 if the cell does not end in the message.
   */
  def cellEnd(message: Array[Byte], at: Int, end: Int): Int = {
    val kind = if (at < end) message(at).toInt else EndOfMessage
    if (kind == 't' || kind == 'b') {
      val size = if (at <= end - CellHead) BigEndian.int32(message, at + 1) else -1
      if (size < 0 || size > end - at - CellHead) -1 else at + CellHead + size
    } else if (kind == 'n' || kind == 'u') at + 1
    else -1
  }

  /** The bytes before the cells: the number of columns. */
  final val TupleHead = 2

  /** The bytes before the value of a cell: its kind and the uint32 length. */
  final val CellHead = 5

  /** A byte that is not a kind of cell. */
  final private val EndOfMessage = 0
}
