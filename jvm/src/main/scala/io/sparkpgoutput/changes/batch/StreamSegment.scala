package io.sparkpgoutput.changes.batch

/**
 * A part of one stream.
 *
 * @param source
 *   which stream; null where there is but one
 */
final case class StreamSegment(source: Any, summary: SegmentSummary)
