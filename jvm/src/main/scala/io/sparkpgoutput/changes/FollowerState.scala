package io.sparkpgoutput.changes

/**
 * What is known at a place in a stream of messages: all that the messages before it mean for those
 * behind it, and small: the transactions that are open, without their changes, and the relations.
 *
 * @param place
 *   the [[Place]] in the stream
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
final case class FollowerState(
    place: Int = Place.Unknown,
    begun: Option[Transaction] = None,
    streamedXid: Long = 0,
    streamed: Seq[Transaction] = Nil,
    prepared: Seq[Transaction] = Nil,
    relations: Seq[SentMessage] = Nil,
    types: Seq[SentMessage] = Nil,
    greatestCommit: Long = 0
) {

  /** The transactions that are open and have a beginning, in the order of their beginnings. */
  def openTransactions: Seq[OpenTransaction] =
    (begun.map(OpenTransaction(_, OpenTransaction.Begun)).toSeq ++
      streamed.filter(_.hasBeginning).map(OpenTransaction(_, OpenTransaction.Streaming)) ++
      prepared.map(OpenTransaction(_, OpenTransaction.Prepared)))
      .sortBy(_.transaction.firstPosition)
}

/** Where in the stream a message stands. */
object Place {

  /** At the beginning of what there is of the stream, perhaps in the midst of something. */
  final val Unknown = 0

  /** Between transactions. */
  final val Between = 1

  /** Between Begin and Commit. */
  final val InTransaction = 2

  /** Between Begin Prepare and Prepare. */
  final val InPrepare = 3

  /** Between Stream Start and Stream Stop. */
  final val InStream = 4
}

/** A transaction that is open at the end of the messages, and how far it is. */
final case class OpenTransaction(transaction: Transaction, state: String)

object OpenTransaction {
  final val Begun = "begun"
  final val Streaming = "streaming"
  final val Prepared = "prepared"
}
