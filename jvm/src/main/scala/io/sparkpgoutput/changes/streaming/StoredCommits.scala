package io.sparkpgoutput.changes.streaming

import org.apache.spark.sql.streaming.MapState

import io.sparkpgoutput.changes.transactions.CommitHistory

/**
 * Remembers the last commits in the state store.
 *
 * @param xids
 *   of the commits, by their LSNs
 * @param lsns
 *   of the commits, in a ring by their numbers
 */
final class StoredCommits(
    after: Long,
    xids: MapState[Long, Long],
    lsns: MapState[Int, Long],
    seen: Long
) extends CommitHistory(after) {
  import StoredCommits.Remembered

  private var number = seen

  /** How many commits there have been. */
  def count: Long = number

  /** Whether the commit is remembered, or older than those that are. */
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
