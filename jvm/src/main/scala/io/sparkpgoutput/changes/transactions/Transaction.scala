package io.sparkpgoutput.changes.transactions

/**
 * A transaction that has begun in the stream and of which it is not yet known what becomes of it.
 *
 * @param xid
 *   the top-level transaction's
 * @param firstPosition
 *   the position of the message that began it; tells apart transactions that were sent again
 * @param hasBeginning
 *   whether the stream has it from its first message on; the changes of others are not read
 * @param commitLsn
 *   what its Begin says of its commit; 0 where there is no Begin
 * @param commitTimestamp
 *   the same
 * @param gid
 *   of a transaction that is prepared; null of others
 * @param origin
 *   the name of the replication origin; null where it has none
 * @param changes
 *   how many messages with changes were sent so far, those of savepoints rolled back included
 * @param nextOrdinal
 *   the `_ordinal` of the next change
 * @param aborted
 *   the xids of the subtransactions that were rolled back
 * @param relations
 *   the last Relation message of each table in its stream blocks, which holds for it
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

  /** The Relation message that holds for it alone; null where there is none. */
  def relation(oid: Long): SchemaMessage = {
    var left = relations
    while (left.nonEmpty && left.head.oid != oid) left = left.tail
    if (left.isEmpty) null else left.head
  }

  /** From now on the Relation message holds. */
  def define(relation: SchemaMessage): Unit =
    relations = relation +: relations.filterNot(_.oid == relation.oid)

  /** What becomes of it, where that is known beforehand; null where it is not, or not committed. */
  @transient var commit: Commit = _
}
