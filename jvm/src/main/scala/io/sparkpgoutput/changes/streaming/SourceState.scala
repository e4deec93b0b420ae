package io.sparkpgoutput.changes.streaming

import io.sparkpgoutput.changes.transactions.AssemblerState

/**
 * The state of a source between two micro-batches, without the changes of its open transactions.
 *
 * @param lastPosition
 *   the position of the last message
 * @param commits
 *   the number of commits so far
 * @param chunks
 *   the number of stored chunks of each open transaction, by the transaction's first position
 */
final case class SourceState(
    lastPosition: Option[Long],
    commits: Long,
    chunks: Seq[(Long, Int)],
    assembler: AssemblerState
)

object SourceState {

  /** The state before the first message, of which the earlier relations and types may be known. */
  def initial(earlier: AssemblerState): SourceState = SourceState(None, 0, Nil, earlier)

  val empty: SourceState = initial(AssemblerState())
}
