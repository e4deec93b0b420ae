package io.sparkpgoutput.source.slot

import java.nio.ByteBuffer
import java.nio.ByteOrder.LITTLE_ENDIAN

import scala.annotation.tailrec

/**
 * The header of a record of WAL (`XLogRecord` in `xlogrecord.h`).
 *
 * @param xid the transaction that wrote the record; 0 if it was none
 * @param previous
 *   where the record before begins; 0 for the first record that initdb or pg_resetwal writes
 * @param kind
 *   the resource manager and its kind of record; 0 for a checkpoint of a server that was shut down
 */
final case class WalRecord(xid: Int, previous: Long, kind: Int) {

  /** Tells if the record is the one that initdb and pg_resetwal write into a new WAL. */
  def beginsWal: Boolean = previous == 0 && kind == 0
}

/** Reads the headers of the records of a segment, as servers of the usual byte order write them. */
object WalRecords {
  final private val LongPageHeader = 40
  final private val PageHeader = 24
  final private val Header = 24
  final private val Alignment = 8

  /**
   * Returns where the record before an LSN ends. If it ends with a page, the next record begins behind the
   * header of the next page.
   *
   * @param next where the next record begins
   * @param pageSize the size of a page in bytes
   * @param segmentSize the size of a segment in bytes
   */
  def endBefore(next: Long, pageSize: Int, segmentSize: Long): Long = {
    val page = next - next % pageSize
    val isBehindHeader =
      next - page == header(if (page % segmentSize == 0) 0 else 1) // only the first one is long
    if (isBehindHeader) page else next
  }

  /**
   * Returns the first records of a segment.
   *
   * @param bytes the first bytes of the segment
   * @param start where the segment begins
   * @param pageSize the size of a page in bytes
   * @return None if the bytes are no such pages, or do not end with a record
   */
  def of(bytes: Array[Byte], start: Long, pageSize: Int): Option[Seq[WalRecord]] = {
    val pages = ByteBuffer.wrap(bytes).order(LITTLE_ENDIAN)
    val isWal = (0 until bytes.length by pageSize)
      .forall(page => page + PageHeader <= bytes.length && pages.getLong(page + 8) == start + page)
    val size = contentSize(bytes.length, pageSize)
    if (!isWal) None
    else records(content(bytes, pageSize).order(LITTLE_ENDIAN), size, 0, Nil)
  }

  /** The bytes without the headers of the pages. */
  private def content(bytes: Array[Byte], pageSize: Int): ByteBuffer = {
    val pages = bytes.grouped(pageSize).zipWithIndex
    ByteBuffer.wrap(pages.flatMap { case (page, number) => page.drop(header(number)) }.toArray)
  }

  private def header(page: Int) = if (page == 0) LongPageHeader else PageHeader

  /** Returns the number of bytes without the headers of pages, in the first bytes of a segment. */
  private def contentSize(bytes: Int, pageSize: Int): Int = {
    val page = bytes / pageSize
    val before = if (page == 0) 0 else page * pageSize - LongPageHeader - (page - 1) * PageHeader
    before + math.max(0, bytes % pageSize - header(page))
  }

  @tailrec
  private def records(
      content: ByteBuffer,
      size: Int,
      at: Int,
      found: List[WalRecord]
  ): Option[Seq[WalRecord]] =
    if (at == size) Some(found.reverse)
    else if (at > size || at + Header > content.limit()) None
    else {
      val length = content.getInt(at)
      val kind = (content.get(at + 17) & 0xff) << 8 | content.get(at + 16) & 0xf0
      val record = WalRecord(content.getInt(at + 4), content.getLong(at + 8), kind)
      // The length is that of a record without what aligns the next one.
      val next = (at.toLong + length + Alignment - 1) / Alignment * Alignment
      if (length < Header || next > size) None
      else records(content, size, next.toInt, record :: found)
    }
}
