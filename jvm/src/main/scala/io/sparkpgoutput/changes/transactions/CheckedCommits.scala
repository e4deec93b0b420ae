package io.sparkpgoutput.changes.transactions

/** The commits of a stream that was checked before: a commit that does not grow was sent before. */
final class CheckedCommits(after: Long) extends CommitHistory(after) {
  override def repeats(lsn: Long, xid: Option[Long]): Boolean =
    !isAbove(lsn)
  override protected def remember(lsn: Long, xid: Long): Unit = ()
}
