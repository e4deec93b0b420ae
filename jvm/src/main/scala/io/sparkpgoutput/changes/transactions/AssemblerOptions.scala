package io.sparkpgoutput.changes.transactions

import io.sparkpgoutput.protocol.TextEncoding

/**
 * How a stream is followed.
 *
 * @param after
 *   the LSN of the last commit that an earlier read gave out; 0 where there was none
 * @param skipIncomplete
 *   whether a committed transaction, of which the beginning is not there, is left out or an error
 * @param encoding
 *   of the text in the messages
 */
final case class AssemblerOptions(
    after: Long,
    skipIncomplete: Boolean,
    encoding: TextEncoding
) {
  def assembler(
      start: AssemblerState,
      commits: CommitHistory,
      handler: TransactionHandler
  ): TransactionAssembler =
    new TransactionAssembler(
      start,
      new ControlMessageDecoder(encoding),
      commits,
      handler,
      skipIncomplete
    )
}
