package io.sparkpgoutput.changes.streaming

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.types.DataType

import io.sparkpgoutput.changes.rows.{ChangeFormat, SourceColumn}

/** The rows of one partition, of one source after the other. */
final class StreamedChangesIterator(
    messages: Iterator[InternalRow],
    format: ChangeFormat,
    sourceType: DataType,
    withSource: Boolean,
    numOutputRows: SQLMetric
) extends Iterator[InternalRow] {
  private var source: Any = _
  private var rows: StreamChangeReader = _
  private var message: InternalRow = _
  private val join =
    if (withSource) new SourceColumn(format, sourceType, CommittedMessage.SOURCE) else null

  override def hasNext: Boolean = {
    while ((rows == null || !rows.hasNext) && messages.hasNext) read(messages.next())
    rows != null && rows.hasNext
  }

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException
    numOutputRows += 1
    if (join == null) rows.next() else join(rows.next(), message)
  }

  private def read(row: InternalRow): Unit = {
    message = row
    val found =
      if (row.isNullAt(CommittedMessage.SOURCE)) null
      else row.get(CommittedMessage.SOURCE, sourceType)
    if (rows == null || found != source) {
      rows = new StreamChangeReader(format)
      source = InternalRow.copyValue(found)
    }
    rows.message(row)
  }
}
