package io.sparkpgoutput.changes.batch

/**
 * What a part of a stream means for what comes behind it, without its changes.
 *
 * @param first
 *   the position of its first message
 * @param last
 *   the position of its last message
 * @param events
 *   what is to be followed, in order
 */
final case class SegmentSummary(
    first: Long,
    last: Long,
    fingerprint: Fingerprint,
    events: Seq[SummaryEvent]
)
