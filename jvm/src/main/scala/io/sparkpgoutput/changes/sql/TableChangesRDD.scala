package io.sparkpgoutput.changes.sql

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.types.DataType
import org.apache.spark.{Partition, TaskContext}

import io.sparkpgoutput.changes.{
  CarriedState,
  ChangeFormat,
  CommittedChanges,
  Fingerprint,
  Fingerprinter,
  FollowRules
}
import io.sparkpgoutput.errors.InputChangedException

/**
 * The rows of committed changes: the second pass over the messages.
 *
 * @param parts
 *   by partition the parts of streams that it has
 * @param sourceType
 *   of the column of sources; None where rows do not have it
 */
final class TableChangesRDD(
    messages: RDD[InternalRow],
    @transient private val parts: Seq[Seq[CarriedPart]],
    rules: FollowRules,
    format: ChangeFormat,
    sourceType: Option[DataType],
    numOutputRows: SQLMetric
) extends RDD[InternalRow](messages) {

  override protected def getPartitions: Array[Partition] =
    messages.partitions.zip(parts).map { case (split, carried) =>
      new TableChangesPartition(split, carried)
    }

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] = {
    val TableChangesPartition(messagesSplit, carried) = split
    new TableChangesIterator(
      messages.iterator(messagesSplit, context),
      carried.iterator,
      rules,
      format,
      sourceType,
      numOutputRows
    )
  }
}

/** What a part of a stream was when it was read first, and what is known at its beginning. */
final case class CarriedPart(
    fingerprint: Fingerprint,
    carried: CarriedState
)

final private case class TableChangesPartition(messages: Partition, parts: Seq[CarriedPart])
    extends Partition {
  override def index: Int = messages.index
}

/** The rows of one partition. */
final private class TableChangesIterator(
    messages: Iterator[InternalRow],
    parts: Iterator[CarriedPart],
    rules: FollowRules,
    format: ChangeFormat,
    sourceType: Option[DataType],
    numOutputRows: SQLMetric
) extends Iterator[InternalRow] {
  private var fingerprint = new Fingerprinter
  private var expected: Fingerprint = _
  private var left = 0L
  private var changes: CommittedChanges = _
  private var message: InternalRow = _

  private val join = sourceType.map(new SourceJoin(format, _, MessageColumns.Source)).orNull

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
    val position = MessageStreams.position(row)
    val bytes = MessageStreams.message(row, position)
    fingerprint.add(position, bytes)
    left -= 1
    if (left == 0 && fingerprint.result != expected) throw changed()
    changes.message(position, bytes)
  }

  private def startPart(): Unit = {
    if (!parts.hasNext) throw changed()
    val CarriedPart(found, carried) = parts.next()
    expected = found
    left = found.messages
    fingerprint = new Fingerprinter
    changes = new CommittedChanges(carried, rules, format)
  }

  private def changed() = new InputChangedException(
    "the messages were others when they were read again, as those of a replication slot are: write " +
      "them to a table, or persist them, and read that."
  )
}
