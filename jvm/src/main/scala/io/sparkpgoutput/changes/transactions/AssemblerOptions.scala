package io.sparkpgoutput.changes.transactions

import io.sparkpgoutput.protocol.TextEncoding

/**
 * The options for assembling transactions.
 *
 * @param after the LSN of the last commit of an earlier read; 0 if there is none
 * @param skipIncomplete
 *   true leaves out a committed transaction whose beginning is missing; false makes it an error
 */
final case class AssemblerOptions(after: Long, skipIncomplete: Boolean, encoding: TextEncoding) {
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
