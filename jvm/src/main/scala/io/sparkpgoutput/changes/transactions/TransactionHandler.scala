package io.sparkpgoutput.changes.transactions

/** What is done with the transactions of a stream, as [[TransactionAssembler]] comes upon them. */
trait TransactionHandler {

  /** A transaction begins; a part of it may have been sent before, which then was dropped. */
  def begin(transaction: Transaction): Unit

  /**
   * A message with changes of a transaction: Insert, Update, Delete or Truncate, not yet decoded.
   *
   * @param context
   *   one of [[io.sparkpgoutput.protocol.StreamContext]], never UNKNOWN
   */
  def change(transaction: Transaction, position: Long, message: Array[Byte], context: Int): Unit

  /** A transaction is over: its changes count. */
  def commit(transaction: Transaction, commit: Commit): Unit

  /** A transaction is over: its changes do not count, or were given out before. */
  def drop(transaction: Transaction): Unit
}
