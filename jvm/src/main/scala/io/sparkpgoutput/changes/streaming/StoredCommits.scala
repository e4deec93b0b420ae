package io.sparkpgoutput.changes.streaming

import org.apache.spark.sql.streaming.MapState

import io.sparkpgoutput.changes.transactions.CommitHistory

/**
 * Remembers the last 100,000 commits in the state store. It takes an older commit that arrives late
 * for one that was sent before.
 *
 * @param xids the xid of each commit, by its LSN
 * @param lsns the LSN of each commit, in a ring by its number
 */
final class StoredCommits(
    after: Long,
    xids: MapState[Long, Long],
    lsns: MapState[Int, Long],
    seen: Long
) extends CommitHistory(after) {
  import StoredCommits.Remembered

  private var number = seen

  /** The number of commits so far. */
  def count: Long = number

  /** Tells if the commit is remembered, or older than the remembered ones. */
  override def repeats(lsn: Long, xid: Option[Long]): Boolean =
    if (xids.containsKey(lsn)) isSame(xid, xids.getValue(lsn))
    else
      number > Remembered &&
      java.lang.Long.compareUnsigned(lsn, lsns.getValue((number % Remembered).toInt)) < 0

  override protected def remember(lsn: Long, xid: Long): Unit = {
    val slot = (number % Remembered).toInt
    if (number >= Remembered) xids.removeKey(lsns.getValue(slot))
    lsns.updateValue(slot, lsn)
    xids.updateValue(lsn, xid)
    number += 1
  }
}

private object StoredCommits {
  final private val Remembered = 100000L
}
