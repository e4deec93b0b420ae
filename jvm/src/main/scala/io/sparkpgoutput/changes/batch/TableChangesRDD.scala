package io.sparkpgoutput.changes.batch

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.types.DataType
import org.apache.spark.{Partition, TaskContext}

import io.sparkpgoutput.changes.rows.ChangeFormat
import io.sparkpgoutput.changes.transactions.AssemblerOptions

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
    @transient private val parts: Seq[Seq[SegmentRead]],
    options: AssemblerOptions,
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
      options,
      format,
      sourceType,
      numOutputRows
    )
  }
}

/** What a part of a stream was when it was read first, and what is known at its beginning. */
final case class SegmentRead(
    fingerprint: Fingerprint,
    carried: SegmentStart
)

final private case class TableChangesPartition(messages: Partition, parts: Seq[SegmentRead])
    extends Partition {
  override def index: Int = messages.index
}
