package io.sparkpgoutput.changes.transactions

import java.util.Arrays

import io.sparkpgoutput.changes.transactions.CommitList.{Entry, ZigZag}

/**
 * Commits whose LSNs grow. Each is stored as its differences from the commit before, in about 6 bytes
 * instead of the 24 bytes of three numbers.
 */
final class CommitList extends Serializable {
  private var bytes = new Array[Byte](64)
  private var end = 0
  private var first = Entry(0, 0, 0)
  private var last = Entry(0, 0, 0)
  private var count = 0

  def size: Int = count

  def add(lsn: Long, xid: Long, position: Long): Unit = {
    if (end + CommitList.LargestEntry > bytes.length) bytes = Arrays.copyOf(bytes, 2 * bytes.length)
    write(lsn - last.lsn)
    write(ZigZag(xid - last.xid))
    write(position - last.position)
    last = Entry(lsn, xid, position)
    if (count == 0) first = last
    count += 1
  }

  /** Tells if an LSN is between the first and the last commit. */
  def covers(lsn: Long): Boolean = count > 0 &&
    java.lang.Long.compareUnsigned(first.lsn, lsn) <= 0 &&
    java.lang.Long.compareUnsigned(lsn, last.lsn) <= 0

  def iterator: Iterator[Entry] = new Iterator[Entry] {
    private var before = Entry(0, 0, 0)
    private var at = 0
    override def hasNext: Boolean = at < end
    override def next(): Entry = {
      before =
        Entry(before.lsn + read(), before.xid + ZigZag.back(read()), before.position + read())
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
  private object ZigZag {
    def apply(value: Long): Long = (value << 1) ^ (value >> 63)
    def back(value: Long): Long = (value >>> 1) ^ -(value & 1)
  }
}
