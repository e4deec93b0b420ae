package io.sparkpgoutput.changes.batch

/**
 * The facts about a segment of a stream that matter to later segments. The messages of a segment
 * follow one another in a partition. The summary has no changes.
 *
 * @param source the stream; null if there is only one
 * @param first the position of its first message
 * @param last the position of its last message
 * @param events what the driver assembles the transactions from, in order
 */
final case class SegmentSummary(
    source: Any,
    first: Long,
    last: Long,
    fingerprint: Fingerprint,
    events: Seq[SummaryEvent]
) {

  /** The source and the first position, which no two segments share. */
  def key: (Any, Long) = (source, first)
}
