package io.sparkpgoutput.changes.batch

import io.sparkpgoutput.changes.transactions.{CommitList, TransactionAssembler}

/** A message, or many that are one for who follows the stream. */
sealed abstract class SummaryEvent extends Serializable {
  def send(assembler: TransactionAssembler): Unit
}

object SummaryEvent {
  final case class Single(position: Long, message: Array[Byte]) extends SummaryEvent {
    override def send(assembler: TransactionAssembler): Unit =
      assembler.message(position, message)
  }

  /** Messages with changes that follow one another, with the first of them. */
  final case class Changes(position: Long, first: Array[Byte], number: Long, ordinals: Long)
      extends SummaryEvent {
    override def send(assembler: TransactionAssembler): Unit =
      assembler.changes(position, first, number, ordinals)
  }

  /** Transactions that follow one another, each from Begin to Commit. */
  final case class Transactions(commits: CommitList) extends SummaryEvent {
    override def send(assembler: TransactionAssembler): Unit = commits.iterator.foreach { commit =>
      assembler.wholeTransaction(commit.lsn, commit.xid, commit.position)
    }
  }
}
