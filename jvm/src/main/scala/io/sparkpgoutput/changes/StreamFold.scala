package io.sparkpgoutput.changes

import scala.collection.mutable

import io.sparkpgoutput.protocol.TextEncoding

/**
 * Follows one stream by the summaries of its parts, in order, and finds out what has to be known to
 * read each of them.
 */
final class StreamFold(start: FollowerState, rules: FollowRules)
    extends TransactionHandler {
  private val follower = rules.follower(start, new RememberedCommits(rules.after), this)
  private val parts = mutable.ArrayBuffer.empty[Part]
  private val open = mutable.LongMap.empty[Transaction]

  /** Takes the next part. */
  def add(summary: StreamSummary): Unit = {
    parts += new Part(follower.state, open.values.toSeq)
    summary.events.foreach(_.follow(follower))
  }

  /** What is known after the last part. */
  def state: FollowerState = follower.state

  /** For each part what its reader has to know; once all parts have been added. */
  def carried: Seq[CarriedState] = parts.toSeq.map { part =>
    CarriedState(
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
  final private class Part(val start: FollowerState, openAtStart: Seq[Transaction]) {
    val transactions = mutable.ArrayBuffer.from(openAtStart)
  }
}

/**
 * What is known at the beginning of a part of a stream.
 *
 * @param commits
 *   by their first positions what becomes of transactions: null where they do not count; those that
 *   are not among them are in the part from Begin to Commit
 */
final case class CarriedState(
    start: FollowerState,
    commits: Map[Long, Commit]
)

/**
 * How a stream is followed.
 *
 * @param after
 *   the LSN of the last commit that an earlier read gave out; 0 where there was none
 * @param skipIncomplete
 *   whether a committed transaction, of which the beginning is not there, is left out or an error
 * @param encoding
 *   of the text in the messages
 */
final case class FollowRules(
    after: Long,
    skipIncomplete: Boolean,
    encoding: TextEncoding
) {
  def follower(
      start: FollowerState,
      commits: CommitHistory,
      handler: TransactionHandler
  ): TransactionFollower =
    new TransactionFollower(start, new ControlFields(encoding), commits, handler, skipIncomplete)
}
