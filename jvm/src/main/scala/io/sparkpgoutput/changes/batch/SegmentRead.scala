package io.sparkpgoutput.changes.batch

/**
 * The facts about a segment that the second pass needs.
 *
 * @param fingerprint
 *   the fingerprint of the messages in the first pass
 * @param repeated
 *   the messages that earlier messages have at positions of the segment
 */
final case class SegmentRead(
    fingerprint: Fingerprint,
    start: SegmentStart,
    repeated: Map[Long, Array[Byte]]
)
