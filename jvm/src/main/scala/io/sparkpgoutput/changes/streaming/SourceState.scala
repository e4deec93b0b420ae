package io.sparkpgoutput.changes.streaming

import io.sparkpgoutput.changes.transactions.AssemblerState

/**
 * What is kept of a source.
 *
 * @param lastPosition
 *   of the last message
 * @param commits
 *   how many there have been
 * @param chunks
 *   by transactions' first positions how many chunks there are of them
 */
final case class SourceState(
    lastPosition: Option[Long],
    commits: Long,
    chunks: Seq[(Long, Int)],
    assembler: AssemblerState
)
