package io.sparkpgoutput.changes.batch

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.types.DataType

import io.sparkpgoutput.changes.MessageColumns
import io.sparkpgoutput.changes.rows.{ChangeFormat, ChangeRowWriter, ChangesIterator, SourceColumn}
import io.sparkpgoutput.changes.transactions._
import io.sparkpgoutput.errors.PgOutputException

/**
 * Reads the rows of committed changes in one partition: the second pass over the messages.
 *
 * @param segments the segments of the partition
 * @param sourceType the type of the source column; None if the rows do not have it
 */
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

  /** Whether all messages of the segment were read. */
  private def isAtEnd = segment == null || fingerprint.messages == segment.fingerprint.messages

  override protected def finish(): Unit =
    if (!isAtEnd || segments.hasNext) throw new PgOutputException("PGOUTPUT_INPUT_CHANGED")

  override protected def read(row: InternalRow): Iterator[UnsafeRow] = {
    if (isAtEnd) startSegment()
    val position = MessageColumns.position(row)
    val bytes = MessageColumns.message(row, position)
    fingerprint.add(position, bytes)
    if (isAtEnd && fingerprint.result != segment.fingerprint)
      throw new PgOutputException("PGOUTPUT_INPUT_CHANGED")
    if (segment.repeated.nonEmpty)
      segment.repeated.get(position).foreach(MessageColumns.checkSame(_, bytes, position))
    reader.message(position, bytes)
  }

  private def startSegment(): Unit = {
    if (!segments.hasNext) throw new PgOutputException("PGOUTPUT_INPUT_CHANGED")
    segment = segments.next()
    fingerprint = new Fingerprinter
    reader = new BatchChangeReader(segment, options, format)
  }
}

/** Reads the committed changes of a segment in the second pass. Not thread-safe. */
final class BatchChangeReader(
    segment: SegmentRead,
    options: AssemblerOptions,
    format: ChangeFormat
) extends TransactionHandler {
  private val commits = new CommitHistory(options.after)
  private val assembler = new TransactionAssembler(options, segment.state, commits, this)
  private val rows = new ChangeRowWriter(format)

  (segment.state.begun ++ segment.state.streamed ++ segment.state.prepared).foreach { open =>
    open.commit = segment.commits.getOrElse(open.firstPosition, null)
  }

  /** Takes the next message and returns its rows. Take all rows before the next message. */
  def message(position: Long, message: Array[Byte]): Iterator[UnsafeRow] = {
    assembler.message(position, message)
    rows
  }

  override def begin(transaction: Transaction): Unit =
    transaction.commit =
      if (segment.commits.isEmpty) commitOfBegin(transaction)
      else segment.commits.getOrElse(transaction.firstPosition, commitOfBegin(transaction))

  private def commitOfBegin(transaction: Transaction): Commit = {
    val lsn = transaction.commitLsn
    if (commits.isAbove(lsn) && commits.isAfter(lsn)) {
      Commit(lsn, transaction.commitTimestamp, null, Set.empty)
    } else null
  }

  override def change(transaction: Transaction, position: Long, message: Array[Byte], context: Int)
      : Unit = rows.start(assembler.known, transaction, position, message, context)
}
