package io.sparkpgoutput.changes.batch

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.types.DataType

import io.sparkpgoutput.changes.MessageColumns
import io.sparkpgoutput.changes.rows.{ChangeFormat, SourceColumn}
import io.sparkpgoutput.changes.transactions.AssemblerOptions
import io.sparkpgoutput.errors.InputChangedException

/** The rows of one partition. */
final class TableChangesIterator(
    messages: Iterator[InternalRow],
    parts: Iterator[SegmentRead],
    options: AssemblerOptions,
    format: ChangeFormat,
    sourceType: Option[DataType],
    numOutputRows: SQLMetric
) extends Iterator[InternalRow] {
  private var fingerprint = new Fingerprinter
  private var expected: Fingerprint = _
  private var left = 0L
  private var changes: BatchChangeReader = _
  private var message: InternalRow = _

  private val join = sourceType.map(new SourceColumn(format, _, MessageColumns.Source)).orNull

  override def hasNext: Boolean = {
    while ((changes == null || !changes.hasNext) && messages.hasNext) read(messages.next())
    val more = changes != null && changes.hasNext
    if (!more && (left > 0 || parts.hasNext)) throw changed()
    more
  }

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException
    numOutputRows += 1
    val row = changes.next()
    if (join == null) row else join(row, message)
  }

  private def read(row: InternalRow): Unit = {
    if (left == 0) startPart()
    message = row
    val position = MessageColumns.position(row)
    val bytes = MessageColumns.message(row, position)
    fingerprint.add(position, bytes)
    left -= 1
    if (left == 0 && fingerprint.result != expected) throw changed()
    changes.message(position, bytes)
  }

  private def startPart(): Unit = {
    if (!parts.hasNext) throw changed()
    val SegmentRead(found, start) = parts.next()
    expected = found
    left = found.messages
    fingerprint = new Fingerprinter
    changes = new BatchChangeReader(start, options, format)
  }

  private def changed() = new InputChangedException(
    "the messages were others when they were read again, as those of a replication slot are: write " +
      "them to a table, or persist them, and read that."
  )
}
