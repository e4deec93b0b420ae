package io.sparkpgoutput.changes.batch

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.DataType

import io.sparkpgoutput.changes.transactions.AssemblerOptions
import io.sparkpgoutput.errors.MessageOrderException

/**
 * Streams of messages in an RDD whose partitions are parts of them, in order.
 *
 * @param parts
 *   by partition the parts that it has one after the other
 */
final case class SummarizedStreams(
    rows: RDD[InternalRow],
    parts: Seq[Seq[StreamSegment]]
) {

  /** The parts of each stream, in order; those that overlap are not. */
  def bySource: Seq[Seq[StreamSegment]] =
    parts.flatten.groupBy(_.source).values.map(_.sortBy(_.summary.first)).toSeq

  def areInOrder: Boolean = bySource.forall { stream =>
    stream.zip(stream.drop(1)).forall { case (one, next) => one.summary.last < next.summary.first }
  }
}

object SummarizedStreams {

  /**
   * Summarizes the streams; None where a partition is not in order.
   *
   * @param sourceType
   *   of the column that tells streams apart; None where there is none
   */
  def summarize(
      rows: RDD[InternalRow],
      sourceType: Option[DataType],
      options: AssemblerOptions
  ): Option[SummarizedStreams] = {
    val parts = rows
      .mapPartitions(messages =>
        Iterator(new PartitionSummarizer(sourceType, options).summarize(messages))
      )
      .collect()
    Option
      .when(parts.forall(_.isDefined))(SummarizedStreams(rows, parts.flatten.toSeq))
      .filter(_.areInOrder)
  }

  def duplicate(position: Long): MessageOrderException = new MessageOrderException(
    s"position $position: two messages have it; the column that orders the messages must be unique " +
      "within a source, such as an offset or a row number. LSNs repeat."
  )
}
