package io.sparkpgoutput.changes.rows

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.types.DataType

/**
 * The rows of the changes in messages.
 *
 * @param source appends the source of a message; null if the rows do not have it
 */
abstract class ChangesIterator(
    messages: Iterator[InternalRow],
    source: SourceColumn,
    numOutputRows: SQLMetric
) extends Iterator[InternalRow] {
  private var message: InternalRow = _
  private var rows: Iterator[UnsafeRow] = Iterator.empty

  /** Reads the next message and returns its rows. */
  protected def read(message: InternalRow): Iterator[UnsafeRow]

  /** Checks that no message is missing after the last one. */
  protected def finish(): Unit = ()

  final override def hasNext: Boolean = {
    while (!rows.hasNext && messages.hasNext) {
      message = messages.next()
      rows = read(message)
    }
    val more = rows.hasNext
    if (!more) finish()
    more
  }

  final override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException
    numOutputRows += 1
    if (source == null) rows.next() else source(rows.next(), message)
  }
}

/**
 * Appends the source of a message to the row of a change.
 *
 * @param ordinal the ordinal of the source in the row of the message
 */
final class SourceColumn(format: ChangeFormat, sourceType: DataType, ordinal: Int) {
  private val joined = new JoinedRow
  private val projection: UnsafeProjection = {
    val columns = format.rowType.zipWithIndex.map { case (field, index) =>
      BoundReference(index, field.dataType, nullable = true)
    }
    UnsafeProjection.create(
      columns :+ BoundReference(columns.length + ordinal, sourceType, nullable = true)
    )
  }

  def apply(row: InternalRow, message: InternalRow): InternalRow = projection(joined(row, message))
}
