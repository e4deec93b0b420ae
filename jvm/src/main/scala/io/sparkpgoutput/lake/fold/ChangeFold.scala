package io.sparkpgoutput.lake.fold

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.types.StructType

import io.sparkpgoutput.lake.batch.{ChangeChunk, ChangeView}

/** Makes one row of the changes of each key. A row is valid until the next call. Not thread-safe. */
trait KeyFold {

  /** Takes the next change of the key. Returns a row, or null. */
  def take(change: ChangeView): UnsafeRow

  /** Ends the key. Returns its next row. It is called until it returns null. */
  def finish(): UnsafeRow
}

/**
 * The rows of a fold over sorted changes.
 *
 * @param changes the changes of a table, those of each key together and in order
 */
final class ChangeFold(changes: Iterator[ChangeView], fold: KeyFold) extends Iterator[InternalRow] {

  /** The key whose changes are being taken, in these bytes. */
  private var bytes: Array[Byte] = _
  private var from = 0
  private var to = 0
  private var hash = 0L

  private var waiting: ChangeView = _
  private var found: UnsafeRow = _

  override def hasNext: Boolean = {
    while (found == null && (waiting != null || bytes != null || changes.hasNext)) advance()
    found != null
  }

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException
    val row = found
    found = null
    row
  }

  private def advance(): Unit = {
    if (waiting == null && changes.hasNext) waiting = changes.next()
    if (bytes != null && (waiting == null || !isSameKey)) {
      found = fold.finish()
      if (found == null) bytes = null
    } else {
      if (bytes == null) {
        bytes = waiting.bytes
        from = waiting.keyFrom
        to = waiting.keyTo
        hash = waiting.hash
      }
      found = fold.take(waiting)
      waiting = null
    }
  }

  private def isSameKey = waiting.hash == hash && waiting.hasKey(bytes, from, to)
}

object ChangeFold {

  /** The columns of the rows of a table. */
  def schema(format: FoldFormat): StructType =
    if (format.isHistory) FoldedColumns.history(format.schema)
    else if (format.key.nonEmpty) FoldedColumns.keyed(format.schema, format.unsent)
    else if (format.isFull) FoldedColumns.counted(format.schema)
    else FoldedColumns.inserted(format.schema)

  /** The rows of the changes in arrays of [[ChangeChunk]]. */
  def rows(format: FoldFormat, chunks: Iterator[Array[Byte]]): Iterator[InternalRow] =
    of(format, ChangeChunk.unpack(chunks))

  /**
   * The rows of changes. A row is valid until the next one.
   *
   * @param all the changes of a table, those of each key together and in order
   */
  def of(format: FoldFormat, all: Iterator[ChangeView]): Iterator[InternalRow] = {
    val changes = format.truncated.fold(all)(position => all.filter(_.isAfter(position)))
    val writer = new FoldedRowWriter(format, schema(format))
    if (format.isHistory) new HistoryRows(format, writer, all)
    else if (format.key.isEmpty && !format.isFull) new InsertFold(format, writer, changes)
    else {
      val fold =
        if (format.key.isEmpty) new RowCountFold(format, writer)
        else if (format.isFull) new FullFold(format, writer)
        else new KeyedFold(format, writer)
      new ChangeFold(changes, fold)
    }
  }
}
