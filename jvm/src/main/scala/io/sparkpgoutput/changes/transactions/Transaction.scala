package io.sparkpgoutput.changes.transactions

import org.apache.spark.sql.types._

import io.sparkpgoutput.protocol.StructSchema

/**
 * A transaction that is open: the stream does not have its commit or rollback yet.
 *
 * @param xid the xid of the top-level transaction
 * @param firstPosition
 *   the position of its first message, which identifies it even if the server sends it again
 * @param hasBeginning
 *   true if the stream has its first message. The changes of other transactions are not read.
 * @param commitLsn the LSN of the commit in the Begin message; 0 if there is no Begin message
 * @param commitTimestamp the time of the commit in the Begin message, in microseconds since 1970
 * @param gid the identifier of a prepared transaction; null of other transactions
 * @param origin the name of the replication origin; null if there is none
 * @param changes
 *   the number of messages with changes so far, including those of savepoints that were rolled back
 * @param nextOrdinal the `_ordinal` of the next change
 * @param aborted the xids of the subtransactions that were rolled back
 * @param relations the last Relation message of each table in its stream blocks
 */
final case class Transaction(
    xid: Long,
    firstPosition: Long,
    hasBeginning: Boolean,
    commitLsn: Long = 0,
    commitTimestamp: Long = 0,
    var gid: String = null,
    var origin: String = null,
    var changes: Long = 0,
    var nextOrdinal: Long = 0,
    var aborted: Set[Long] = Set.empty,
    var relations: Seq[SchemaMessage] = Nil
) {

  /** The Relation message that is valid for this transaction only; null if there is none. */
  def relation(oid: Long): SchemaMessage = {
    var left = relations
    while (left.nonEmpty && left.head.oid != oid) left = left.tail
    if (left.isEmpty) null else left.head
  }

  /** Makes a Relation message valid for this transaction. */
  def define(relation: SchemaMessage): Unit =
    relations = relation +: relations.filterNot(_.oid == relation.oid)

  /** The commit, if it is known before its message is read; null if it is not known, or if there is none. */
  @transient var commit: Commit = _
}

/**
 * The commit of a transaction. For a prepared transaction, it is the COMMIT PREPARED.
 *
 * @param timestamp microseconds since 1970
 * @param aborted the xids of the subtransactions that were rolled back
 */
final case class Commit(lsn: Long, timestamp: Long, gid: String, aborted: Set[Long])

/**
 * The state between two messages of a stream. It has everything that later messages need from
 * earlier ones. It is small, because it does not have the changes of the open transactions.
 *
 * @param begun the transaction of the open B..C or b..P
 * @param streamedXid the transaction of the open S..E
 * @param streamed the open transactions that are sent in blocks S..E
 * @param prepared the prepared transactions
 * @param definitions
 *   the Relation message of each table that is valid outside of stream blocks, and the last Type message of each type
 * @param greatestCommit the greatest LSN of a commit; 0 before the first
 */
final case class AssemblerState(
    phase: StreamPhase.Value = StreamPhase.Unknown,
    begun: Option[Transaction] = None,
    streamedXid: Long = 0,
    streamed: Seq[Transaction] = Nil,
    prepared: Seq[Transaction] = Nil,
    definitions: Seq[SchemaMessage] = Nil,
    greatestCommit: Long = 0
) {

  /** The open transactions that have a beginning, in the order of their first positions. */
  def openTransactions: Seq[OpenTransaction] =
    (begun.map(OpenTransaction(_, OpenTransaction.Begun)).toSeq ++
      streamed.filter(_.hasBeginning).map(OpenTransaction(_, OpenTransaction.Streaming)) ++
      prepared.map(OpenTransaction(_, OpenTransaction.Prepared)))
      .sortBy(_.transaction.firstPosition)
}

/** A transaction that is open at the end of the messages, and its state. */
final case class OpenTransaction(transaction: Transaction, state: String)

object OpenTransaction {
  final val Begun = "begun"
  final val Streaming = "streaming"
  final val Prepared = "prepared"
}

/** The columns of a transaction that is still open at the end of the messages. */
object OpenTransactionSchema extends StructSchema {
  import OpenTransaction._

  field("_xid", LongType, "The id of the top-level transaction")
  field("_gid", StringType, "The identifier of a prepared transaction")
  field("state", StringType, s"One of $Begun, $Streaming, $Prepared")
  field("first_position", LongType, "The position of its first message")
  field(
    "changes",
    LongType,
    "The number of its changes so far, including changes of savepoints that were rolled back"
  )
}
