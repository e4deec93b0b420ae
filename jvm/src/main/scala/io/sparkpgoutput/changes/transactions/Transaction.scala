package io.sparkpgoutput.changes.transactions

/**
 * An open transaction: the stream has its beginning, and not yet its commit or rollback.
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

  /** The commit if it is known beforehand; null if it is not, or if there is none. */
  @transient var commit: Commit = _
}
