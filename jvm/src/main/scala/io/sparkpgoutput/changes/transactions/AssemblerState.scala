package io.sparkpgoutput.changes.transactions

/**
 * The state between two messages of a stream. It has everything that later messages need from
 * earlier ones. It is small, because it does not have the changes of the open transactions.
 *
 * @param begun the transaction of the open B..C or b..P
 * @param streamedXid the transaction of the open S..E
 * @param streamed the open transactions that are sent in blocks S..E
 * @param prepared the prepared transactions
 * @param relations the Relation message of each table that is valid outside of stream blocks
 * @param types the last Type message of each type
 * @param greatestCommit the greatest LSN of a commit; 0 before the first
 */
final case class AssemblerState(
    phase: StreamPhase = StreamPhase.Unknown,
    begun: Option[Transaction] = None,
    streamedXid: Long = 0,
    streamed: Seq[Transaction] = Nil,
    prepared: Seq[Transaction] = Nil,
    relations: Seq[SchemaMessage] = Nil,
    types: Seq[SchemaMessage] = Nil,
    greatestCommit: Long = 0
) {

  /** The open transactions that have a beginning, in the order of their first positions. */
  def openTransactions: Seq[OpenTransaction] =
    (begun.map(OpenTransaction(_, OpenTransaction.Begun)).toSeq ++
      streamed.filter(_.hasBeginning).map(OpenTransaction(_, OpenTransaction.Streaming)) ++
      prepared.map(OpenTransaction(_, OpenTransaction.Prepared)))
      .sortBy(_.transaction.firstPosition)
}
