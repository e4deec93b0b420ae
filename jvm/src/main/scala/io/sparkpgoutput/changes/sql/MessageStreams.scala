package io.sparkpgoutput.changes.sql

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.DataType

import io.sparkpgoutput.changes.{ChangesError, FollowRules, StreamSummary}
import io.sparkpgoutput.errors.MessageOrderException

/**
 * Streams of messages in an RDD whose partitions are parts of them, in order.
 *
 * @param parts
 *   by partition the parts that it has one after the other
 */
final case class MessageStreams(
    rows: RDD[InternalRow],
    parts: Seq[Seq[StreamPart]]
) {

  /** The parts of each stream, in order; those that overlap are not. */
  def bySource: Seq[Seq[StreamPart]] =
    parts.flatten.groupBy(_.source).values.map(_.sortBy(_.summary.first)).toSeq

  def areInOrder: Boolean = bySource.forall { stream =>
    stream.zip(stream.drop(1)).forall { case (one, next) => one.summary.last < next.summary.first }
  }
}

/**
 * A part of one stream.
 *
 * @param source
 *   which stream; null where there is but one
 */
final case class StreamPart(source: Any, summary: StreamSummary)

object MessageStreams {

  /**
   * Summarizes the streams; None where a partition is not in order.
   *
   * @param sourceType
   *   of the column that tells streams apart; None where there is none
   */
  def summarize(
      rows: RDD[InternalRow],
      sourceType: Option[DataType],
      rules: FollowRules
  ): Option[MessageStreams] = {
    val parts = rows
      .mapPartitions(messages =>
        Iterator(new PartSummarizer(sourceType, rules).summarize(messages))
      )
      .collect()
    Option
      .when(parts.forall(_.isDefined))(MessageStreams(rows, parts.flatten.toSeq))
      .filter(_.areInOrder)
  }

  /** The column of a message's source; null where there is none. */
  def sourceOf(row: InternalRow, sourceType: Option[DataType]): Any = sourceType match {
    case Some(dataType) if !row.isNullAt(MessageColumns.Source) =>
      row.get(MessageColumns.Source, dataType)
    case _ => null
  }

  /** Where a message stands. */
  def position(row: InternalRow): Long =
    if (row.isNullAt(MessageColumns.Position)) throw MessageOrderException.nullPosition
    else row.getLong(MessageColumns.Position)

  def message(row: InternalRow, position: Long): Array[Byte] =
    if (row.isNullAt(MessageColumns.Message)) {
      throw ChangesError.malformed("the message is NULL", position)
    } else row.getBinary(MessageColumns.Message)

  def duplicate(position: Long): MessageOrderException = new MessageOrderException(
    s"position $position: two messages have it; the column that orders the messages must be unique " +
      "within a source, such as an offset or a row number. LSNs repeat."
  )
}
