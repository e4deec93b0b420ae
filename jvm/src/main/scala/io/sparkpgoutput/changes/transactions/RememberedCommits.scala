package io.sparkpgoutput.changes.transactions

import scala.collection.mutable

/** Remembers all commits of a stream. Ten million commits take about 60 MB. */
final class RememberedCommits(after: Long) extends CommitHistory(after) {
  private val blocks = mutable.ArrayBuffer(new CommitList)

  /** The number of commits. */
  def size: Long = blocks.map(_.size.toLong).sum

  /** The commits by their LSNs as unsigned numbers. */
  def iterator: Iterator[CommitList.Entry] = blocks.iterator.flatMap(_.iterator)

  override def repeats(lsn: Long, xid: Option[Long]): Boolean =
    blocks.exists(block =>
      block.covers(lsn) &&
        block.iterator.exists(commit => commit.lsn == lsn && isSame(xid, commit.xid))
    )

  override protected def remember(lsn: Long, xid: Long): Unit = {
    if (blocks.last.size >= RememberedCommits.BlockSize) blocks += new CommitList
    blocks.last.add(lsn, xid, 0)
  }
}

private object RememberedCommits {
  final private val BlockSize = 4096
}
