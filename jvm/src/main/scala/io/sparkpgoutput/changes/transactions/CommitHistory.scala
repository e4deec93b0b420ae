package io.sparkpgoutput.changes.transactions

import java.util.Arrays

import scala.collection.mutable

import io.sparkpgoutput.errors.PgOutputException
import io.sparkpgoutput.protocol.Lsn

/**
 * The commits of a stream, whose LSNs grow, and the answer to the question whether a commit was sent before:
 * see [[TransactionAssembler]]. LSNs are compared as unsigned numbers.
 *
 * @param after the LSN of the last commit of an earlier read; 0 if there is none
 */
abstract class CommitHistory(after: Long) {
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
  def repeats(lsn: Long, xid: Option[Long]): Boolean

  protected def remember(lsn: Long, xid: Long): Unit

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

/** The commits of a stream that was checked before: if the LSN of a commit does not grow, it was sent before. */
final class CheckedCommits(after: Long) extends CommitHistory(after) {
  override def repeats(lsn: Long, xid: Option[Long]): Boolean =
    !isAbove(lsn)
  override protected def remember(lsn: Long, xid: Long): Unit = ()
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
final class CommitList extends Serializable {
  import CommitList._

  private var bytes = new Array[Byte](64)
  private var end = 0
  private var first = Entry(0, 0, 0)
  private var last = Entry(0, 0, 0)
  private var count = 0

  def size: Int = count

  def add(lsn: Long, xid: Long, position: Long): Unit = {
    if (end + LargestEntry > bytes.length) bytes = Arrays.copyOf(bytes, 2 * bytes.length)
    write(lsn - last.lsn)
    write(zigZag(xid - last.xid))
    write(position - last.position)
    last = Entry(lsn, xid, position)
    if (count == 0) first = last
    count += 1
  }

  /** Returns whether an LSN is between the first and the last commit. */
  def covers(lsn: Long): Boolean =
    count > 0 && !Lsn.isBelow(lsn, first.lsn) && !Lsn.isBelow(last.lsn, lsn)

  def iterator: Iterator[Entry] = new Iterator[Entry] {
    private var before = Entry(0, 0, 0)
    private var at = 0
    override def hasNext: Boolean = at < end
    override def next(): Entry = {
      before =
        Entry(before.lsn + read(), before.xid + signed(read()), before.position + read())
      before
    }

    private def read(): Long = {
      var value = 0L
      var shift = 0
      while (bytes(at) < 0) {
        value |= (bytes(at) & 0x7fL) << shift
        shift += 7
        at += 1
      }
      at += 1
      value | (bytes(at - 1).toLong << shift)
    }
  }

  /** Writes seven bits in each byte, the lowest first. The eighth bit says that more follow. */
  private def write(value: Long): Unit = {
    var left = value
    while ((left & ~0x7fL) != 0) {
      bytes(end) = (left | 0x80).toByte
      end += 1
      left >>>= 7
    }
    bytes(end) = left.toByte
    end += 1
  }
}

object CommitList {
  final case class Entry(lsn: Long, xid: Long, position: Long)

  /** Three numbers of up to ten bytes. */
  final private val LargestEntry = 30

  /** Turns small numbers of either sign into small numbers without a sign. */
  private def zigZag(value: Long): Long = (value << 1) ^ (value >> 63)
  private def signed(value: Long): Long = (value >>> 1) ^ -(value & 1)
}
