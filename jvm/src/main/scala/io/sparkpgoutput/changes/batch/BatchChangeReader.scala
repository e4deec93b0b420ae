package io.sparkpgoutput.changes.batch

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.sparkpgoutput.changes.rows.{ChangeFormat, ChangeRowWriter}
import io.sparkpgoutput.changes.transactions.{
  AssemblerOptions,
  CheckedCommits,
  Commit,
  Transaction,
  TransactionHandler
}

/**
 * The rows of the committed changes in a part of a stream. Not thread-safe.
 *
 * @param carried
 *   what is known at its beginning, and which transactions count
 */
final class BatchChangeReader(
    carried: SegmentStart,
    options: AssemblerOptions,
    format: ChangeFormat
) extends TransactionHandler {
  private val commits = new CheckedCommits(options.after)
  private val assembler = options.assembler(carried.start, commits, this)
  private val rows = new ChangeRowWriter(format)

  (carried.start.begun ++ carried.start.streamed ++ carried.start.prepared).foreach { open =>
    open.commit = carried.commits.getOrElse(open.firstPosition, null)
  }

  /** Takes the next message; its rows are to be taken before the one after it. */
  def message(position: Long, message: Array[Byte]): Unit = assembler.message(position, message)

  def hasNext: Boolean = rows.hasNext

  /** The next row, in memory that the one after it is written to. */
  def next(): UnsafeRow = rows.next()

  override def begin(transaction: Transaction): Unit =
    transaction.commit =
      if (carried.commits.isEmpty) wholeCommit(transaction)
      else carried.commits.getOrElse(transaction.firstPosition, wholeCommit(transaction))

  /** Of a transaction that is whole: as its Begin says. */
  private def wholeCommit(transaction: Transaction): Commit = {
    val lsn = transaction.commitLsn
    if (commits.isAbove(lsn) && commits.isAfter(lsn)) {
      Commit(lsn, transaction.commitTimestamp, null, Set.empty)
    } else null
  }

  override def change(transaction: Transaction, position: Long, message: Array[Byte], context: Int)
      : Unit = rows.start(assembler, transaction, position, message, context)

  override def commit(transaction: Transaction, commit: Commit): Unit = ()
  override def drop(transaction: Transaction): Unit = ()
}
