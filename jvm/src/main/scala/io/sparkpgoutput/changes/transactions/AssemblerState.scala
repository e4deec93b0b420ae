package io.sparkpgoutput.changes.transactions

/**
 * What is known at a place in a stream of messages: all that the messages before it mean for those
 * behind it, and small: the transactions that are open, without their changes, and the relations.
 *
 * @param place
 *   the [[StreamPhase]] in the stream
 * @param begun
 *   the transaction of the open B..C or b..P
 * @param streamedXid
 *   the transaction of the open S..E
 * @param streamed
 *   transactions that are sent in blocks S..E
 * @param prepared
 *   transactions that are prepared
 * @param relations
 *   the Relation message of each table that holds outside of stream blocks
 * @param types
 *   the last Type message of each type
 * @param greatestCommit
 *   the greatest LSN of a commit; 0 before the first
 */
final case class AssemblerState(
    place: Int = StreamPhase.Unknown,
    begun: Option[Transaction] = None,
    streamedXid: Long = 0,
    streamed: Seq[Transaction] = Nil,
    prepared: Seq[Transaction] = Nil,
    relations: Seq[SchemaMessage] = Nil,
    types: Seq[SchemaMessage] = Nil,
    greatestCommit: Long = 0
) {

  /** The transactions that are open and have a beginning, in the order of their beginnings. */
  def openTransactions: Seq[OpenTransaction] =
    (begun.map(OpenTransaction(_, OpenTransaction.Begun)).toSeq ++
      streamed.filter(_.hasBeginning).map(OpenTransaction(_, OpenTransaction.Streaming)) ++
      prepared.map(OpenTransaction(_, OpenTransaction.Prepared)))
      .sortBy(_.transaction.firstPosition)
}
