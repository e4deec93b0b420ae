package io.sparkpgoutput.changes.transactions

import io.sparkpgoutput.changes.ChangesError

/**
 * The commits of a stream. Their LSNs grow. If a commit has a lower LSN, the server sent it again,
 * because the server does not know that the reader has it. Such a commit is left out.
 *
 * LSNs are compared as unsigned numbers.
 *
 * @param after the LSN of the last commit of an earlier read; 0 if there is none
 */
abstract class CommitHistory(after: Long) {
  private var greatestLsn = 0L

  /** The greatest LSN of all commits; 0 before the first. */
  final def greatest: Long = greatestLsn

  /** Continues from the greatest commit of another history. */
  final def continueFrom(greatest: Long): Unit = greatestLsn = greatest

  /** Adds a commit, and tells if it is new and above `after`. */
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

  /** Tells if a commit is above all commits before it. */
  final def isAbove(lsn: Long): Boolean = java.lang.Long.compareUnsigned(lsn, greatestLsn) > 0

  /** Tells if a commit is above the commits of an earlier read. */
  final def isAfter(lsn: Long): Boolean = java.lang.Long.compareUnsigned(lsn, after) > 0

  /** Tells if the commit was sent before. The xid is None if it is not known. */
  def repeats(lsn: Long, xid: Option[Long]): Boolean

  protected def remember(lsn: Long, xid: Long): Unit

  /** Tells if a transaction is the remembered one. */
  final protected def isSame(asked: Option[Long], remembered: Long): Boolean =
    remembered == CommitHistory.UnknownXid || asked.forall(_ == remembered)
}

object CommitHistory {

  /** Stands for the xid of a Commit without its Begin (`InvalidTransactionId`). */
  final val UnknownXid = 0L
}
