package io.sparkpgoutput.changes.transactions

import scala.annotation.unused
import scala.collection.mutable

import com.esotericsoftware.kryo.io.{Input, Output}

import io.sparkpgoutput.errors.PgOutputException
import io.sparkpgoutput.protocol.Lsn

/**
 * The commits of a stream, whose LSNs grow, and the answer to the question whether a commit was sent before:
 * see [[TransactionAssembler]]. LSNs are compared as unsigned numbers.
 *
 * This class itself remembers no commits, for a stream that was checked before: if the LSN of a commit does not
 * grow, it was sent before.
 *
 * @param after
 *   the LSN of the last commit of an earlier read, also if its result had no rows of it; 0 if there is none. The
 *   messages can begin inside transactions that the earlier read had, so a commit at or below it needs no beginning.
 */
class CommitHistory(after: Long) {
  private var greatestLsn = 0L

  /** The greatest LSN of all commits; 0 before the first. */
  final def greatest: Long = greatestLsn

  /** Continues from the greatest commit of another history. */
  final def continueFrom(greatest: Long): Unit = greatestLsn = greatest

  /** Adds a commit, and returns whether it is new and above `after`. */
  final def accepts(lsn: Long, xid: Long, position: Long): Boolean =
    if (isAbove(lsn)) {
      greatestLsn = lsn
      remember(lsn, xid)
      isAfter(lsn)
    } else {
      if (isAfter(lsn) && !repeats(lsn, Some(xid))) {
        throw CommitHistory.wentBack(position, Some(xid), lsn)
      }
      false
    }

  /** Returns whether a commit is above all earlier commits. */
  final def isAbove(lsn: Long): Boolean = Lsn.isBelow(greatestLsn, lsn)

  /** Returns whether a commit is above the commits of an earlier read. */
  final def isAfter(lsn: Long): Boolean = Lsn.isBelow(after, lsn)

  /** Returns whether the commit was sent before. The xid is None if it is not known. */
  def repeats(lsn: Long, @unused xid: Option[Long]): Boolean = !isAbove(lsn)

  protected def remember(lsn: Long, xid: Long): Unit = ()

  /** Returns whether a transaction is the remembered one. */
  final protected def isSame(asked: Option[Long], remembered: Long): Boolean =
    remembered == CommitHistory.UnknownXid || asked.forall(_ == remembered)
}

object CommitHistory {

  /** The xid of a Commit without its Begin (`InvalidTransactionId`). */
  final val UnknownXid = 0L

  /** The error of a commit that is not above an earlier one, and that was not sent before. */
  def wentBack(position: Long, xid: Option[Long], lsn: Long): PgOutputException =
    new PgOutputException(
      "PGOUTPUT_COMMIT_WENT_BACK",
      "position" -> position,
      "ofXid" -> xid.fold("")(id => s" of xid $id"),
      "lsn" -> Lsn.format(lsn)
    )
}

/** Remembers all commits of a stream. Ten million commits take about 60 MB. */
final class RememberedCommits(after: Long) extends CommitHistory(after) {
  final private val BlockSize = 4096
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
    if (blocks.last.size >= BlockSize) blocks += new CommitList
    blocks.last.add(lsn, xid, 0)
  }
}

/**
 * Commits whose LSNs grow. Each is stored as its differences from the previous commit, in about 6 bytes
 * instead of the 24 bytes of three numbers.
 */
final class CommitList {
  import CommitList._

  private val out = new Output(64, -1)
  private var first = Entry(0, 0, 0)
  private var last = Entry(0, 0, 0)
  private var count = 0

  def size: Int = count

  def add(lsn: Long, xid: Long, position: Long): Unit = {
    out.writeVarLong(lsn - last.lsn, true)
    out.writeVarLong(xid - last.xid, false)
    out.writeVarLong(position - last.position, true)
    last = Entry(lsn, xid, position)
    if (count == 0) first = last
    count += 1
  }

  /** Returns whether an LSN is between the first and the last commit. */
  def covers(lsn: Long): Boolean =
    count > 0 && !Lsn.isBelow(lsn, first.lsn) && !Lsn.isBelow(last.lsn, lsn)

  def iterator: Iterator[Entry] = read(new Input(out.getBuffer, 0, out.position))

  /** The commits as bytes. */
  def toBytes: Array[Byte] = out.toBytes
}

object CommitList {
  final case class Entry(lsn: Long, xid: Long, position: Long)

  /** Reads the commits of a list from its bytes. */
  def read(bytes: Array[Byte]): Iterator[Entry] = read(new Input(bytes))

  private def read(input: Input): Iterator[Entry] = new Iterator[Entry] {
    private var last = Entry(0, 0, 0)
    override def hasNext: Boolean = !input.eof
    override def next(): Entry = {
      val lsn = last.lsn + input.readVarLong(true)
      val xid = last.xid + input.readVarLong(false)
      last = Entry(lsn, xid, last.position + input.readVarLong(true))
      last
    }
  }
}
