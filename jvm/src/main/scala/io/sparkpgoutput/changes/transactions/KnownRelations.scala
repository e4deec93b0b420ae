package io.sparkpgoutput.changes.transactions

/** The relations and types that are known at a place in a stream. */
trait KnownRelations {

  /** The Relation message that holds for a change of the transaction; null where there is none. */
  def relation(transaction: Transaction, oid: Long): SchemaMessage

  /** Every Type message so far. */
  def typeMessages: Iterable[SchemaMessage]
}
