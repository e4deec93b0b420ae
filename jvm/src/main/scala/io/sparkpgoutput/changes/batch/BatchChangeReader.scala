package io.sparkpgoutput.changes.batch

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.sparkpgoutput.changes.rows.{ChangeFormat, ChangeRowWriter}
import io.sparkpgoutput.changes.transactions._

/** Reads the committed changes of a segment in the second pass. Not thread-safe. */
final class BatchChangeReader(
    start: SegmentStart,
    options: AssemblerOptions,
    format: ChangeFormat
) extends TransactionHandler {
  private val commits = new CheckedCommits(options.after)
  private val assembler = options.assembler(start.state, commits, this)
  private val rows = new ChangeRowWriter(format)

  (start.state.begun ++ start.state.streamed ++ start.state.prepared).foreach { open =>
    open.commit = start.commits.getOrElse(open.firstPosition, null)
  }

  /** Takes the next message and returns its rows. Take all rows before the next message. */
  def message(position: Long, message: Array[Byte]): Iterator[UnsafeRow] = {
    assembler.message(position, message)
    rows
  }

  override def begin(transaction: Transaction): Unit =
    transaction.commit =
      if (start.commits.isEmpty) commitOfBegin(transaction)
      else start.commits.getOrElse(transaction.firstPosition, commitOfBegin(transaction))

  private def commitOfBegin(transaction: Transaction): Commit = {
    val lsn = transaction.commitLsn
    if (commits.isAbove(lsn) && commits.isAfter(lsn)) {
      Commit(lsn, transaction.commitTimestamp, null, Set.empty)
    } else null
  }

  override def change(transaction: Transaction, position: Long, message: Array[Byte], context: Int)
      : Unit = rows.start(assembler.known, transaction, position, message, context)

  override def commit(transaction: Transaction, commit: Commit): Unit = ()
  override def drop(transaction: Transaction): Unit = ()
}
