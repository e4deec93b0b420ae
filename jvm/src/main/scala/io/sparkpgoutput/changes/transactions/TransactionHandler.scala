package io.sparkpgoutput.changes.transactions

/** Handles the transactions of a stream, in the order in which [[TransactionAssembler]] finds them. */
trait TransactionHandler {

  /** A transaction begins. If a part of it was sent before, that part was dropped. */
  def begin(transaction: Transaction): Unit

  /**
   * A transaction has a change: an Insert, Update, Delete or Truncate message, not yet decoded.
   *
   * @param context a [[io.sparkpgoutput.protocol.StreamContext]] other than UNKNOWN
   */
  def change(transaction: Transaction, position: Long, message: Array[Byte], context: Int): Unit

  /** A transaction is committed. */
  def commit(transaction: Transaction, commit: Commit): Unit

  /** A transaction is rolled back, or its changes were returned before. */
  def drop(transaction: Transaction): Unit
}
