package io.sparkpgoutput.source.slot

import java.time.Duration

import scala.annotation.tailrec

import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.source.connection.ServerConnection

/** The end of the WAL, for a reader that ends there. */
object WalEnd {
  private val Limit = Duration.ofSeconds(10)
  final private val PauseMillis = 10L

  /**
   * Returns an LSN below which there is all that was committed before the call. A session gets to it at
   * once. The flushed end of the WAL can lie inside a record, which can stay unfinished for 10 seconds. So
   * this writes a transaction without changes, and returns an end of a record behind it. Who has read up to
   * there has nothing left of its own in the slot, which `pg_upgrade` would refuse.
   *
   * A standby cannot write. There, it is the end of the replay, and the primary's next record passes it.
   */
  def next(connection: ServerConnection): Long = {
    val isStandby = connection.query("SELECT pg_is_in_recovery()")(_.getBoolean(1)).head
    if (isStandby) Server.flushLsn(connection)
    else {
      connection.query("SELECT txid_current()")(_ => ())
      flushed(connection, written(connection), System.nanoTime() + Limit.toNanos)
    }
  }

  private def written(connection: ServerConnection): Long = connection.query(
    "SELECT pg_current_wal_insert_lsn()::text, current_setting('wal_block_size')::int, " +
      "(SELECT setting::bigint FROM pg_settings WHERE name = 'wal_segment_size')"
  )(row =>
    WalRecords.endBefore(SlotState.lsn(row.getString(1)), row.getInt(2), row.getLong(3))
  ).head

  /** Waits until the WAL is flushed up to an LSN. The server's process for that takes 200 ms. */
  @tailrec
  private def flushed(connection: ServerConnection, lsn: Long, deadline: Long): Long = {
    val end = Server.flushLsn(connection)
    if (!Lsn.isBelow(end, lsn)) lsn
    else if (System.nanoTime() > deadline) end
    else {
      Thread.sleep(PauseMillis)
      flushed(connection, lsn, deadline)
    }
  }
}
