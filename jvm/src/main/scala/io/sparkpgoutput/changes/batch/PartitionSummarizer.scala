package io.sparkpgoutput.changes.batch

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.DataType

import io.sparkpgoutput.changes.transactions.{AssemblerOptions, ControlMessageDecoder}
import io.sparkpgoutput.changes.{ChangesError, MessageColumns}

/**
 * Summarizes the segments of streams in one partition. A segment ends where another source begins, or
 * where the positions go back or leave out many, as between files that Spark reads in one partition.
 * Use it once.
 */
final class PartitionSummarizer(sourceType: Option[DataType], options: AssemblerOptions) {
  private val fields = new ControlMessageDecoder(options.encoding)
  private val segments = mutable.ArrayBuffer.empty[SegmentSummary]
  private var summarizer: SegmentSummarizer = _
  private var gaps = 0

  /** Returns the segments; None if there are so many that the messages cannot be in order. */
  def summarize(rows: Iterator[InternalRow]): Option[Seq[SegmentSummary]] = {
    while (rows.hasNext && segments.length < PartitionSummarizer.MostSegments) add(rows.next())
    Option.unless(rows.hasNext) {
      finish()
      segments.toSeq
    }
  }

  private def add(row: InternalRow): Unit = {
    val position = MessageColumns.position(row)
    val found = MessageColumns.source(row, sourceType)
    val isSame = summarizer != null && found == summarizer.source
    if (isSame && position == summarizer.lastPosition)
      throw ChangesError.duplicatePosition(position)
    if (!isSame || position < summarizer.lastPosition || isGap(position)) {
      finish()
      val source = InternalRow.copyValue(found) // the next row overwrites this one
      summarizer = new SegmentSummarizer(fields, source)
    }
    summarizer.message(position, MessageColumns.message(row, position))
  }

  /**
   * Tells if the positions leave out far more than between the messages before. Another partition may
   * have these messages, if this partition has several files. A segment too many does no harm.
   */
  private def isGap(position: Long): Boolean = {
    val gap = position - summarizer.lastPosition
    val isLarge = gap > PartitionSummarizer.LargeGap && gaps < PartitionSummarizer.MostGaps &&
      gap / PartitionSummarizer.LargeGap > summarizer.meanGap
    if (isLarge) gaps += 1
    isLarge
  }

  private def finish(): Unit = if (summarizer != null) segments += summarizer.result()
}

private object PartitionSummarizer {

  /** More files than a partition has. Messages that are not in order have more segments. */
  final private val MostSegments = 500

  /** The number of segments that may end at a gap, and how much larger a gap is than others. */
  final private val MostGaps = 100
  final private val LargeGap = 1000
}
