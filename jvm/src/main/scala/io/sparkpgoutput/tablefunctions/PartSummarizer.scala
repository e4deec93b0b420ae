package io.sparkpgoutput.tablefunctions

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.DataType
import org.apache.spark.unsafe.types.UTF8String

import io.sparkpgoutput.changes._

/**
 * Summarizes the parts of streams in one partition. One ends where the source is another, or where
 * the order goes back, as between files that Spark reads in one partition. Used once.
 */
final private[tablefunctions] class PartSummarizer(
    sourceType: Option[DataType],
    rules: FollowRules
) {
  private val fields = new ControlFields(rules.encoding)
  private val parts = mutable.ArrayBuffer.empty[StreamPart]
  private var source: Any = _
  private var summarizer: StreamSummarizer = _

  /** The parts, one after the other; None where there are so many that there is no order. */
  def summarize(rows: Iterator[InternalRow]): Option[Seq[StreamPart]] = {
    while (rows.hasNext && parts.length < PartSummarizer.MostParts) add(rows.next())
    Option.unless(rows.hasNext) {
      finish()
      parts.toSeq
    }
  }

  private def add(row: InternalRow): Unit = {
    val position = MessageStreams.position(row)
    val found = MessageStreams.sourceOf(row, sourceType)
    val isSame = summarizer != null && found == source
    if (isSame && position == summarizer.lastPosition) throw MessageStreams.duplicate(position)
    if (!isSame || position < summarizer.lastPosition) {
      finish()
      source = found match {
        case text: UTF8String => text.clone() // the row's memory is used again
        case other            => other
      }
      summarizer = new StreamSummarizer(fields)
    }
    summarizer.message(position, MessageStreams.message(row, position))
  }

  private def finish(): Unit =
    if (summarizer != null) parts += StreamPart(source, summarizer.result())
}

private object PartSummarizer {

  /** Of files that are read one after the other; not of messages that are in no order. */
  final private val MostParts = 500
}
