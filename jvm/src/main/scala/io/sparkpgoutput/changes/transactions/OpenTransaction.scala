package io.sparkpgoutput.changes.transactions

/** A transaction that is open at the end of the messages, and its state. */
final case class OpenTransaction(transaction: Transaction, state: String)

object OpenTransaction {
  final val Begun = "begun"
  final val Streaming = "streaming"
  final val Prepared = "prepared"
}
