package io.sparkpgoutput.changes.batch

import io.sparkpgoutput.changes.transactions.{AssemblerState, Commit}

/**
 * What is known at the beginning of a part of a stream.
 *
 * @param commits
 *   by their first positions what becomes of transactions: null where they do not count; those that
 *   are not among them are in the part from Begin to Commit
 */
final case class SegmentStart(
    start: AssemblerState,
    commits: Map[Long, Commit]
)
