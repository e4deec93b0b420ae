package io.sparkpgoutput.changes.batch

import scala.collection.mutable

import io.sparkpgoutput.changes.transactions._

/**
 * Assembles the transactions of one stream from the summaries of its segments, and finds out what
 * the second pass has to know at the start of each segment.
 */
final class SummaryAssembler(start: AssemblerState, options: AssemblerOptions)
    extends TransactionHandler {
  private val history = new RememberedCommits(options.after)
  private val assembler = options.assembler(start, history, this)
  private val segments = mutable.ArrayBuffer.empty[Segment]
  private val open = mutable.LongMap.empty[Transaction]

  /** Takes the summary of the next segment. */
  def add(summary: SegmentSummary): Unit = {
    segments += new Segment(assembler.state, open.values.toSeq)
    summary.events.foreach(_.send(assembler))
  }

  /** The state after the last segment. */
  def state: AssemblerState = assembler.state

  /** The commits by their LSNs as unsigned numbers. */
  def commits: Iterator[CommitList.Entry] = history.iterator

  def numberOfCommits: Long = history.size

  /** The start of each segment. Call it when all segments have been added. */
  def starts: Seq[SegmentStart] = segments.toSeq.map { segment =>
    SegmentStart(
      segment.start,
      segment.transactions.map(transaction => transaction.firstPosition -> transaction.commit).toMap
    )
  }

  override def begin(transaction: Transaction): Unit = {
    segments.last.transactions += transaction
    open.update(transaction.firstPosition, transaction)
  }

  override def change(transaction: Transaction, position: Long, message: Array[Byte], context: Int)
      : Unit = throw new IllegalStateException("a summary has no changes")

  override def commit(transaction: Transaction, commit: Commit): Unit = {
    transaction.commit = commit
    drop(transaction)
  }

  override def drop(transaction: Transaction): Unit = open.remove(transaction.firstPosition)

  /** A segment, and the transactions that it has messages of and that its summary does not end. */
  final private class Segment(val start: AssemblerState, openAtStart: Seq[Transaction]) {
    val transactions = mutable.ArrayBuffer.from(openAtStart)
  }
}
