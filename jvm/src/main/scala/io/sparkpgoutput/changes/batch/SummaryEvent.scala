package io.sparkpgoutput.changes.batch

import io.sparkpgoutput.changes.transactions.{CommitList, TransactionAssembler}

/** A message, or many messages that the driver takes as one. */
sealed abstract class SummaryEvent extends Serializable {
  def send(assembler: TransactionAssembler): Unit
}

object SummaryEvent {

  /** A message that is not summarized. */
  final case class MessageEvent(position: Long, message: Array[Byte]) extends SummaryEvent {
    override def send(assembler: TransactionAssembler): Unit =
      assembler.message(position, message)
  }

  /** Changes that follow one another, with the message of the first one. */
  final case class ChangesEvent(position: Long, first: Array[Byte], number: Long, ordinals: Long)
      extends SummaryEvent {
    override def send(assembler: TransactionAssembler): Unit =
      assembler.changes(position, first, number, ordinals)
  }

  /** Transactions that follow one another, each from Begin to Commit. */
  final case class TransactionsEvent(commits: CommitList) extends SummaryEvent {
    override def send(assembler: TransactionAssembler): Unit = commits.iterator.foreach { commit =>
      assembler.wholeTransaction(commit.lsn, commit.xid, commit.position)
    }
  }
}
