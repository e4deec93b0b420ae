package io.sparkpgoutput.changes.batch

/**
 * The facts about a segment of a stream that matter to later segments. It has no changes.
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
