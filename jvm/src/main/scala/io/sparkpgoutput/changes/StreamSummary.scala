package io.sparkpgoutput.changes

/**
 * What a part of a stream means for what comes behind it, without its changes.
 *
 * @param first
 *   the position of its first message
 * @param last
 *   the position of its last message
 * @param events
 *   what is to be followed, in order
 */
final case class StreamSummary(
    first: Long,
    last: Long,
    fingerprint: Fingerprint,
    events: Seq[StreamEvent]
)

/** By which it is seen whether messages that are read twice were the same. */
final case class Fingerprint(messages: Long, positions: Long, bytes: Long)

/** A message, or many that are one for who follows the stream. */
sealed abstract class StreamEvent extends Serializable {
  def follow(follower: TransactionFollower): Unit
}

object StreamEvent {
  final case class Single(position: Long, message: Array[Byte]) extends StreamEvent {
    override def follow(follower: TransactionFollower): Unit = follower.message(position, message)
  }

  /** Messages with changes that follow one another, with the first of them. */
  final case class Changes(position: Long, first: Array[Byte], number: Long, ordinals: Long)
      extends StreamEvent {
    override def follow(follower: TransactionFollower): Unit =
      follower.changes(position, first, number, ordinals)
  }

  /** Transactions that follow one another, each from Begin to Commit. */
  final case class Transactions(commits: CommitList) extends StreamEvent {
    override def follow(follower: TransactionFollower): Unit = commits.iterator.foreach { commit =>
      follower.wholeTransaction(commit.lsn, commit.xid, commit.position)
    }
  }
}
