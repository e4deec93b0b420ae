package io.sparkpgoutput.changes.streaming

import io.sparkpgoutput.changes.transactions.AssemblerState

/**
 * The state of a source between two micro-batches, without the changes of its open transactions.
 *
 * @param lastPosition the position of the last message
 * @param commits the number of commits so far
 * @param chunks
 *   the number of stored chunks of each open transaction, by the transaction's first position
 */
final case class SourceState(
    lastPosition: Option[Long] = None,
    commits: Long = 0,
    chunks: Seq[(Long, Int)] = Nil,
    assembler: AssemblerState = AssemblerState()
)
