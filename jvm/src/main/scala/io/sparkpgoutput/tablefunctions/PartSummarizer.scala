package io.sparkpgoutput.tablefunctions

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.DataType
import org.apache.spark.unsafe.types.UTF8String

import io.sparkpgoutput.changes._

/** Summarizes the parts of streams in one partition. Used once. */
final private[tablefunctions] class PartSummarizer(
    sourceType: Option[DataType],
    rules: FollowRules
) {
  private val fields = new ControlFields(rules.encoding)
  private val parts = mutable.LinkedHashMap.empty[Any, StreamPart]
  private var source: Any = _
  private var summarizer: StreamSummarizer = _

  /** The parts, one after the other; None where they are not in order. */
  def summarize(rows: Iterator[InternalRow]): Option[Seq[StreamPart]] = {
    var inOrder = true
    while (inOrder && rows.hasNext) inOrder = add(rows.next())
    Option.when(inOrder) {
      finish()
      parts.values.toSeq
    }
  }

  private def add(row: InternalRow): Boolean = {
    val position = MessageStreams.position(row)
    val found = MessageStreams.sourceOf(row, sourceType)
    val isNew = summarizer == null || found != source
    if (isNew) {
      finish()
      source = found match {
        case text: UTF8String => text.clone() // the row's memory is used again
        case other            => other
      }
      summarizer = new StreamSummarizer(fields)
    }
    val inOrder =
      if (isNew) !parts.contains(source)
      else if (position == summarizer.lastPosition) throw MessageStreams.duplicate(position)
      else position > summarizer.lastPosition
    if (inOrder) summarizer.message(position, MessageStreams.message(row, position))
    inOrder
  }

  private def finish(): Unit =
    if (summarizer != null) parts.update(source, StreamPart(source, summarizer.result()))
}
