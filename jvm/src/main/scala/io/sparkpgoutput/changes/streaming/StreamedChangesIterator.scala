package io.sparkpgoutput.changes.streaming

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.types.DataType

import io.sparkpgoutput.changes.rows.{ChangeFormat, ChangesIterator, SourceColumn}

/** Reads the rows of committed changes in one partition, one source after the other. */
final class StreamedChangesIterator(
    messages: Iterator[InternalRow],
    format: ChangeFormat,
    sourceType: DataType,
    withSource: Boolean,
    numOutputRows: SQLMetric
) extends ChangesIterator(
      messages,
      if (withSource) new SourceColumn(format, sourceType, CommittedMessage.SOURCE) else null,
      numOutputRows
    ) {
  private var source: Any = _
  private var reader: StreamChangeReader = _

  override protected def read(row: InternalRow): Iterator[UnsafeRow] = {
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
