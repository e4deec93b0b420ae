package io.sparkpgoutput.changes.batch

/**
 * What the second pass has to know of a segment.
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
