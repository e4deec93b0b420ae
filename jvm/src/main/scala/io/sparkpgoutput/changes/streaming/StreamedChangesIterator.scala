package io.sparkpgoutput.changes.streaming

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.types.DataType

import io.sparkpgoutput.changes.rows.{ChangeFormat, SourceColumn}

/** Reads the rows of committed changes in one partition, one source after the other. */
final class StreamedChangesIterator(
    messages: Iterator[InternalRow],
    format: ChangeFormat,
    sourceType: DataType,
    withSource: Boolean,
    numOutputRows: SQLMetric
) extends Iterator[InternalRow] {
  private var source: Any = _
  private var reader: StreamChangeReader = _
  private var message: InternalRow = _
  private var rows: Iterator[UnsafeRow] = Iterator.empty
  private val join =
    if (withSource) new SourceColumn(format, sourceType, CommittedMessage.SOURCE) else null

  override def hasNext: Boolean = {
    while (!rows.hasNext && messages.hasNext) rows = read(messages.next())
    rows.hasNext
  }

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException
    numOutputRows += 1
    if (join == null) rows.next() else join(rows.next(), message)
  }

  private def read(row: InternalRow): Iterator[UnsafeRow] = {
    message = row
    val found =
      if (row.isNullAt(CommittedMessage.SOURCE)) null
      else row.get(CommittedMessage.SOURCE, sourceType)
    if (reader == null || found != source) {
      reader = new StreamChangeReader(format)
      source = InternalRow.copyValue(found)
    }
    reader.message(row)
  }
}
