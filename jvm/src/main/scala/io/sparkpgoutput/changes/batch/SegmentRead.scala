package io.sparkpgoutput.changes.batch

import io.sparkpgoutput.changes.transactions.{AssemblerState, Commit}

/**
 * The facts about a segment that the second pass needs.
 *
 * @param fingerprint the fingerprint of the messages in the first pass
 * @param repeated the messages that earlier messages have at positions of the segment
 */
final case class SegmentRead(
    fingerprint: Fingerprint,
    start: SegmentStart,
    repeated: Map[Long, Array[Byte]]
)

/**
 * The state of a stream before the first message of a segment.
 *
 * @param commits
 *   the commit of each transaction that the segment has messages of, by the transaction's first
 *   position; null if the transaction is not committed. A transaction that is missing here is in the
 *   segment from its Begin to its Commit.
 */
final case class SegmentStart(state: AssemblerState, commits: Map[Long, Commit])
