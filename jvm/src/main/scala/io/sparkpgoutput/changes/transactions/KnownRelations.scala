package io.sparkpgoutput.changes.transactions

/** The relations and types that are known at a position of a stream. */
trait KnownRelations {

  /** The Relation message for a change of the transaction; null if there is none. */
  def relation(transaction: Transaction, oid: Long): SchemaMessage

  /** The last Type message of each type. */
  def typeMessages: Iterable[SchemaMessage]
}
