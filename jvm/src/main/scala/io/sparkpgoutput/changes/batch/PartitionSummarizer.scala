package io.sparkpgoutput.changes.batch

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.DataType

import io.sparkpgoutput.changes.transactions.{AssemblerOptions, ControlMessageDecoder}
import io.sparkpgoutput.changes.{ChangesError, MessageColumns}

/**
 * Summarizes the parts of streams in one partition. One ends where the source is another, and where
 * the order goes back or leaves out much, as between files that Spark reads in one partition. Used
 * once.
 */
final class PartitionSummarizer(
    sourceType: Option[DataType],
    options: AssemblerOptions
) {
  private val fields = new ControlMessageDecoder(options.encoding)
  private val parts = mutable.ArrayBuffer.empty[StreamSegment]
  private var source: Any = _
  private var summarizer: SegmentSummarizer = _
  private var gaps = 0

  /** The parts, one after the other; None where there are so many that there is no order. */
  def summarize(rows: Iterator[InternalRow]): Option[Seq[StreamSegment]] = {
    while (rows.hasNext && parts.length < PartitionSummarizer.MostParts) add(rows.next())
    Option.unless(rows.hasNext) {
      finish()
      parts.toSeq
    }
  }

  private def add(row: InternalRow): Unit = {
    val position = MessageColumns.position(row)
    val found = MessageColumns.source(row, sourceType)
    val isSame = summarizer != null && found == source
    if (isSame && position == summarizer.lastPosition)
      throw ChangesError.duplicatePosition(position)
    if (!isSame || position < summarizer.lastPosition || isGap(position)) {
      finish()
      source = InternalRow.copyValue(found) // the row's memory is used again
      summarizer = new SegmentSummarizer(fields)
    }
    summarizer.message(position, MessageColumns.message(row, position))
  }

  /**
   * Whether far more is left out than between the messages before: perhaps what another partition
   * has, where this one reads several files. A part too many does no harm.
   */
  private def isGap(position: Long): Boolean = {
    val gap = position - summarizer.lastPosition
    val isLarge = gap > PartitionSummarizer.LargeGap && gaps < PartitionSummarizer.MostGaps &&
      gap / PartitionSummarizer.LargeGap > summarizer.meanGap
    if (isLarge) gaps += 1
    isLarge
  }

  private def finish(): Unit =
    if (summarizer != null) parts += StreamSegment(source, summarizer.result())
}

private object PartitionSummarizer {

  /** Of files that are read one after the other; not of messages that are in no order. */
  final private val MostParts = 500

  /** How many parts may end in front of a gap, and how much larger it is than those before. */
  final private val MostGaps = 100
  final private val LargeGap = 1000
}
