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
 * @param segments the segments of each partition of the messages
 * @param sourceType the type of the source column; None if the rows do not have it
 */
final class TableChangesRDD(
    messages: RDD[InternalRow],
    @transient private val segments: Seq[Seq[SegmentRead]],
    options: AssemblerOptions,
    format: ChangeFormat,
    sourceType: Option[DataType],
    numOutputRows: SQLMetric
) extends RDD[InternalRow](messages) {

  override protected def getPartitions: Array[Partition] =
    messages.partitions.zip(segments).map { case (partition, segments) =>
      new TableChangesPartition(partition, segments)
    }

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] = {
    val TableChangesPartition(partition, segments) = split
    new TableChangesIterator(
      messages.iterator(partition, context),
      segments.iterator,
      options,
      format,
      sourceType,
      numOutputRows
    )
  }
}

final private case class TableChangesPartition(messages: Partition, segments: Seq[SegmentRead])
    extends Partition {
  override def index: Int = messages.index
}
