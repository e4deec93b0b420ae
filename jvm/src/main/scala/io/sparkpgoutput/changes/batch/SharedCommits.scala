package io.sparkpgoutput.changes.batch

import scala.collection.{BufferedIterator, mutable}

import io.sparkpgoutput.changes.transactions.CommitList.Entry

/** Finds out if two streams have a commit with the same LSN. */
object SharedCommits {

  /** @param streams the commits of each stream, by their LSNs as unsigned numbers */
  def exist(streams: Seq[Iterator[Entry]]): Boolean = {
    // A queue gives its greatest element first, which is to be the commit with the lowest LSN.
    val lowestFirst =
      Ordering.by((commits: BufferedIterator[Entry]) => ~commits.head.lsn ^ Long.MinValue)
    val queue = mutable.PriorityQueue.empty(lowestFirst)
    streams.map(_.buffered).filter(_.hasNext).foreach(queue.enqueue(_))
    var shared = false
    while (!shared && queue.size > 1) {
      val commits = queue.dequeue()
      shared = commits.next().lsn == queue.head.head.lsn
      if (commits.hasNext) queue.enqueue(commits)
    }
    shared
  }
}
