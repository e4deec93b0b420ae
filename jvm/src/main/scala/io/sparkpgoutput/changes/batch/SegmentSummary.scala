package io.sparkpgoutput.changes.batch

/**
 * What a segment of a stream means for the segments after it, without its changes.
 *
 * @param first
 *   the position of its first message
 * @param last
 *   the position of its last message
 * @param events
 *   what the driver assembles the transactions from, in order
 */
final case class SegmentSummary(
    first: Long,
    last: Long,
    fingerprint: Fingerprint,
    events: Seq[SummaryEvent]
)
