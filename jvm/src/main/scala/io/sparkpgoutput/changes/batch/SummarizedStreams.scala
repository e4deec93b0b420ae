package io.sparkpgoutput.changes.batch

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.DataType

import io.sparkpgoutput.changes.transactions.AssemblerOptions

/**
 * Streams of messages after the first pass has read each partition.
 *
 * @param rows the messages; the segments of a partition follow one another
 * @param segments the segments of each partition
 */
final case class SummarizedStreams(rows: RDD[InternalRow], segments: Seq[Seq[SegmentSummary]]) {

  /** The segments of each stream, by their first positions. */
  private lazy val bySource: Seq[Seq[SegmentSummary]] =
    segments.flatten.groupBy(_.source).values.map(_.sortBy(_.first)).toSeq

  /** Tells if no two segments of a stream overlap. */
  def areInOrder: Boolean = bySource.forall { stream =>
    stream.zip(stream.drop(1)).forall { case (one, next) => one.last < next.first }
  }

  /** The position of the first message of each stream. */
  def starts: Map[Any, Long] =
    bySource.map(stream => stream.head.source -> stream.head.first).toMap

  /** Assembles the transactions of each stream. */
  def assembled(
      earlier: Map[Any, EarlierRelations],
      options: AssemblerOptions
  ): Seq[AssembledStream] = bySource.map { stream =>
    val relations = earlier.getOrElse(stream.head.source, EarlierRelations())
    val transactions = new SummaryAssembler(relations.state, options)
    stream.foreach(transactions.add)
    AssembledStream(stream, transactions, relations)
  }
}

object SummarizedStreams {

  /**
   * Reads the messages for the first time.
   *
   * @param sourceType the type of the source column; None if there is none
   * @return None if the messages are not in order
   */
  def summarize(
      rows: RDD[InternalRow],
      sourceType: Option[DataType],
      options: AssemblerOptions
  ): Option[SummarizedStreams] = {
    val partitions = rows
      .mapPartitions(messages =>
        Iterator(new PartitionSummarizer(sourceType, options).summarize(messages))
      )
      .collect()
    Option
      .when(partitions.forall(_.isDefined))(SummarizedStreams(rows, partitions.flatten.toSeq))
      .filter(_.areInOrder)
  }
}
