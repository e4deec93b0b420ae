package io.sparkpgoutput.source.slot

import java.io.ByteArrayOutputStream

import io.sparkpgoutput.source.connection.{
  ConnectionError,
  Connections,
  ReplicationConnection,
  ServerAddress
}

/**
 * Proves that a slot has everything that was written since `pg_upgrade` made it.
 *
 * `pg_upgrade` starts the WAL of the new server with `pg_resetwal`, which writes a checkpoint without a
 * predecessor at the begin of a segment. It then makes the slots, and nobody else can connect before it
 * ends. So all records from the begin of that segment to the confirmed LSN of the slot are of no
 * transaction. If the slot was moved, or made later, or transactions ran before, there are others.
 */
object UpgradedSlot {
  private val ApplicationName = "spark-pgoutput"

  /** More than any number of slots needs. */
  final private val MostBytes = 1 << 20

  /** Returns why a slot is not as `pg_upgrade` made it, a sentence; None if it is. */
  def problem(address: ServerAddress, server: Server, slot: SlotState): Option[String] = {
    val confirmed = slot.confirmedFlush.get
    ConnectionError.explaining(address) {
      val connection = Connections.openReplication(address, ApplicationName)
      try {
        val size = connection.query(
          "SELECT setting::bigint FROM pg_settings WHERE name = 'wal_segment_size'"
        )(_.getLong(1)).head
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
        Some("Transactions ran between the upgrade and the begin of the slot.")
      case Some(_ +: _) => None
      case _            => Some("The WAL between the upgrade and the slot cannot be read.")
    }

  /** Reads WAL as a standby does. */
  private def read(connection: ReplicationConnection, start: Long, bytes: Long): Array[Byte] = {
    val copy = connection.startPhysical(start)
    val found = new ByteArrayOutputStream
    while (found.size < bytes) found.write(walData(copy.readFromCopy(true)))
    found.toByteArray.take(bytes.toInt)
  }

  /** XLogData: the tag w; Int64 start; Int64 end; Int64 clock; the WAL. Other messages have none. */
  private def walData(message: Array[Byte]): Array[Byte] =
    if (message == null) throw new IllegalStateException("The server has ended the WAL.")
    else if (message(0) == 'w') message.drop(1 + 3 * 8)
    else Array.empty
}
