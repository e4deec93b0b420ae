package io.sparkpgoutput.changes.batch

import scala.collection.mutable

import io.sparkpgoutput.changes.transactions.{
  AssemblerOptions,
  AssemblerState,
  Commit,
  RememberedCommits,
  Transaction,
  TransactionHandler
}

/**
 * Follows one stream by the summaries of its parts, in order, and finds out what has to be known to
 * read each of them.
 */
final class SummaryAssembler(start: AssemblerState, options: AssemblerOptions)
    extends TransactionHandler {
  private val assembler = options.assembler(start, new RememberedCommits(options.after), this)
  private val parts = mutable.ArrayBuffer.empty[Part]
  private val open = mutable.LongMap.empty[Transaction]

  /** Takes the next part. */
  def add(summary: SegmentSummary): Unit = {
    parts += new Part(assembler.state, open.values.toSeq)
    summary.events.foreach(_.follow(assembler))
  }

  /** What is known after the last part. */
  def state: AssemblerState = assembler.state

  /** For each part what its reader has to know; once all parts have been added. */
  def carried: Seq[SegmentStart] = parts.toSeq.map { part =>
    SegmentStart(
      part.start,
      part.transactions.map(transaction => transaction.firstPosition -> transaction.commit).toMap
    )
  }

  override def begin(transaction: Transaction): Unit = {
    parts.last.transactions += transaction
    open.update(transaction.firstPosition, transaction)
  }

  override def change(transaction: Transaction, position: Long, message: Array[Byte], context: Int)
      : Unit = throw new IllegalStateException("summaries have no changes")

  override def commit(transaction: Transaction, commit: Commit): Unit = {
    transaction.commit = commit
    drop(transaction)
  }

  override def drop(transaction: Transaction): Unit = open.remove(transaction.firstPosition)

  /** A part, and the transactions that it has something of and that are not whole in a summary. */
  final private class Part(val start: AssemblerState, openAtStart: Seq[Transaction]) {
    val transactions = mutable.ArrayBuffer.from(openAtStart)
  }
}
