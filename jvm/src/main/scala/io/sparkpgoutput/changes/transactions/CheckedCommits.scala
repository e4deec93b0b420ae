package io.sparkpgoutput.changes.transactions

/** Of a stream whose repeats have been checked before: what does not grow repeats. */
final class CheckedCommits(after: Long) extends CommitHistory(after) {
  override def repeats(lsn: Long, xid: Option[Long]): Boolean =
    !isAbove(lsn)
  override protected def remember(lsn: Long, xid: Long): Unit = ()
}
