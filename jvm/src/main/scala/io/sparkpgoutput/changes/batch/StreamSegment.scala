package io.sparkpgoutput.changes.batch

/**
 * A part of one stream whose messages follow one another in a partition.
 *
 * @param source
 *   the stream; null if there is only one
 */
final case class StreamSegment(source: Any, summary: SegmentSummary) {
  def key: StreamSegment.Key = (source, summary.first)
}

object StreamSegment {

  /** The source and the first position, which no two segments share. */
  type Key = (Any, Long)
}
