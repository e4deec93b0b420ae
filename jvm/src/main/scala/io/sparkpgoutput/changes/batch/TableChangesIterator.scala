package io.sparkpgoutput.changes.batch

import java.util.Arrays

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.types.DataType

import io.sparkpgoutput.changes.rows.{ChangeFormat, ChangesIterator, SourceColumn}
import io.sparkpgoutput.changes.transactions.AssemblerOptions
import io.sparkpgoutput.changes.{ChangesError, MessageColumns}

/** Reads the rows of committed changes in one partition. */
final class TableChangesIterator(
    messages: Iterator[InternalRow],
    segments: Iterator[SegmentRead],
    options: AssemblerOptions,
    format: ChangeFormat,
    sourceType: Option[DataType],
    numOutputRows: SQLMetric
) extends ChangesIterator(
      messages,
      sourceType.map(new SourceColumn(format, _, MessageColumns.Source)).orNull,
      numOutputRows
    ) {
  private var segment: SegmentRead = _
  private var reader: BatchChangeReader = _
  private var fingerprint: Fingerprinter = _

  /** The number of messages of the segment that are still to be read. */
  private var left = 0L

  override protected def finish(): Unit =
    if (left > 0 || segments.hasNext) throw ChangesError.inputChanged

  override protected def read(row: InternalRow): Iterator[UnsafeRow] = {
    if (left == 0) startSegment()
    val position = MessageColumns.position(row)
    val bytes = MessageColumns.message(row, position)
    fingerprint.add(position, bytes)
    left -= 1
    if (left == 0 && fingerprint.result != segment.fingerprint) throw ChangesError.inputChanged
    if (segment.repeated.nonEmpty) checkRepeated(position, bytes)
    reader.message(position, bytes)
  }

  private def startSegment(): Unit = {
    if (!segments.hasNext) throw ChangesError.inputChanged
    segment = segments.next()
    left = segment.fingerprint.messages
    fingerprint = new Fingerprinter
    reader = new BatchChangeReader(segment.start, options, format)
  }

  private def checkRepeated(position: Long, message: Array[Byte]): Unit =
    segment.repeated.get(position).foreach { earlier =>
      if (!Arrays.equals(earlier, message)) throw ChangesError.positionsBeganAgain(position)
    }
}
