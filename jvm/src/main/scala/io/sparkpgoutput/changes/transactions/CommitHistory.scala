package io.sparkpgoutput.changes.transactions

import io.sparkpgoutput.changes.ChangesError

/**
 * The commits of a stream. Their LSNs only grow; one that does not is sent again by a server that
 * does not know that its reader has it, and is to be left out.
 *
 * LSNs are compared unsigned.
 */
abstract class CommitHistory(after: Long) {
  private var greatestLsn = 0L

  /** The greatest LSN of all commits; 0 before the first. */
  final def greatest: Long = greatestLsn

  /** Goes on from another history's greatest commit. */
  final def continueFrom(greatest: Long): Unit = greatestLsn = greatest

  /** Whether the commit is new, and not at or below `after`. */
  final def accepts(lsn: Long, xid: Long, position: Long): Boolean =
    if (isAbove(lsn)) {
      greatestLsn = lsn
      remember(lsn, xid)
      isAfter(lsn)
    } else {
      if (isAfter(lsn) && !repeats(lsn, Some(xid))) {
        throw ChangesError.wentBack(lsn, Some(xid), position)
      }
      false
    }

  /** Whether it is above all commits before it. */
  final def isAbove(lsn: Long): Boolean = java.lang.Long.compareUnsigned(lsn, greatestLsn) > 0

  /** Whether it is above the commits that were given out by an earlier read. */
  final def isAfter(lsn: Long): Boolean = java.lang.Long.compareUnsigned(lsn, after) > 0

  /** Whether the commit is one of those before; None where its xid is not known. */
  def repeats(lsn: Long, xid: Option[Long]): Boolean

  protected def remember(lsn: Long, xid: Long): Unit

  /** Whether a transaction that was asked for is the one that was remembered. */
  final protected def isSame(asked: Option[Long], remembered: Long): Boolean =
    remembered == CommitHistory.UnknownXid || asked.forall(_ == remembered)
}

object CommitHistory {

  /** Of a Commit without its Begin; no transaction's (`InvalidTransactionId`). */
  final val UnknownXid = 0L
}
