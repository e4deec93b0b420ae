package io.sparkpgoutput.source.slot

import java.io.ByteArrayOutputStream
import java.nio.ByteBuffer
import java.nio.ByteOrder.LITTLE_ENDIAN

import scala.annotation.tailrec

import io.sparkpgoutput.source.connection._

/**
 * Proves that a slot has everything that was written since `pg_upgrade` made it.
 *
 * `pg_upgrade` starts the WAL of the new server with `pg_resetwal`, which writes a checkpoint without a
 * predecessor at the beginning of a segment. It then makes the slots, and nobody else can connect before it
 * ends. So no record from the beginning of that segment to the confirmed LSN of the slot belongs to a
 * transaction. If the slot was moved, or made later, or transactions ran before it was made, there are
 * records of transactions.
 */
object UpgradedSlot {
  import ReplicationProtocol.{XLogData, walData}

  /** More than any number of slots needs. */
  final private val MostBytes = 1 << 20

  /** Returns why a slot is not as `pg_upgrade` made it, a sentence; None if it is. */
  def problem(address: ServerAddress, server: Server, slot: SlotState): Option[String] = {
    val confirmed = slot.confirmedFlush.get
    ConnectionError.explaining(address) {
      val connection = Connections.openReplication(address)
      try {
        val size = connection.setting("wal_segment_size")
        val start = confirmed / size * size
        val bytes = confirmed - start
        if (bytes > MostBytes) Some("The slot begins long after the upgrade.")
        else problem(read(connection, start, bytes), start, server.walBlockSize)
      } finally connection.abort()
    }
  }

  private[slot] def problem(
      wal: Array[Byte],
      start: Long,
      pageSize: Int
  ): Option[String] =
    WalRecords.of(wal, start, pageSize) match {
      case Some(first +: _) if !first.beginsWal =>
        Some("The WAL of the slot does not begin with the upgrade.")
      case Some(_ +: records) if records.exists(_.xid != 0) =>
        Some("Transactions ran between the upgrade and the beginning of the slot.")
      case Some(_ +: _) => None
      case _            => Some("The WAL between the upgrade and the slot cannot be read.")
    }

  /** Reads WAL as a standby does. */
  private def read(connection: ReplicationConnection, start: Long, bytes: Long): Array[Byte] = {
    val copy = connection.startPhysical(start)
    val found = new ByteArrayOutputStream
    while (found.size < bytes) {
      val message = copy.readFromCopy(true)
      if (message == null) throw new IllegalStateException("The server has ended the WAL.")
      if (message(0) == XLogData) found.write(walData(message))
    }
    found.toByteArray.take(bytes.toInt)
  }
}

/**
 * The header of a record of WAL (`XLogRecord` in `xlogrecord.h`).
 *
 * @param xid the transaction that wrote the record; 0 if it was none
 * @param previous
 *   where the previous record begins; 0 for the first record that initdb or pg_resetwal writes
 * @param kind
 *   the resource manager and its kind of record; 0 for a checkpoint of a server that was shut down
 */
final case class WalRecord(xid: Int, previous: Long, kind: Int) {

  /** Returns whether the record is the one that initdb and pg_resetwal write into a new WAL. */
  def beginsWal: Boolean = previous == 0 && kind == 0
}

/** Reads the headers of the records of a segment, as servers of the usual byte order write them. */
object WalRecords {
  final private val LongPageHeader = 40
  final private val PageHeader = 24
  final private val Header = 24
  final private val Alignment = 8

  /**
   * Returns where the record before an LSN ends. If it ends with a page, the next record begins after the
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
   * @return None if the bytes are not such pages, or do not end with a record
   */
  def of(bytes: Array[Byte], start: Long, pageSize: Int): Option[Seq[WalRecord]] = {
    val pages = ByteBuffer.wrap(bytes).order(LITTLE_ENDIAN)
    val isWal = (0 until bytes.length by pageSize)
      .forall(page => page + PageHeader <= bytes.length && pages.getLong(page + 8) == start + page)
    if (!isWal) None
    else records(content(bytes, pageSize).order(LITTLE_ENDIAN), 0, Nil)
  }

  /** The bytes without the headers of the pages. */
  private def content(bytes: Array[Byte], pageSize: Int): ByteBuffer = {
    val pages = bytes.grouped(pageSize).zipWithIndex
    ByteBuffer.wrap(pages.flatMap { case (page, number) => page.drop(header(number)) }.toArray)
  }

  private def header(page: Int) = if (page == 0) LongPageHeader else PageHeader

  @tailrec
  private def records(
      content: ByteBuffer,
      at: Int,
      found: List[WalRecord]
  ): Option[Seq[WalRecord]] =
    if (at == content.limit()) Some(found.reverse)
    else if (at + Header > content.limit()) None
    else {
      val length = content.getInt(at)
      val kind = (content.get(at + 17) & 0xff) << 8 | content.get(at + 16) & 0xf0
      val record = WalRecord(content.getInt(at + 4), content.getLong(at + 8), kind)
      // The length does not include the padding that aligns the next record.
      val next = (at.toLong + length + Alignment - 1) / Alignment * Alignment
      if (length < Header || next > content.limit()) None
      else records(content, next.toInt, record :: found)
    }
}
