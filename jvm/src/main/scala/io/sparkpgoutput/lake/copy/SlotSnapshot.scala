package io.sparkpgoutput.lake.copy

import java.sql.SQLException
import java.time.Duration
import java.util.UUID

import scala.util.Try

import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.source.connection.{
  ConnectionError,
  Connections,
  ReplicationConnection,
  ServerAddress,
  ServerConnection
}
import io.sparkpgoutput.source.slot.{ServerWait, SlotError}

/**
 * The snapshot of a temporary slot. It sees the transactions whose commit LSNs are below the slot's
 * consistent point, and no others. It lasts as long as it is open.
 *
 * @param id what `SET TRANSACTION SNAPSHOT` takes
 */
final class SlotSnapshot private (val lsn: Long, val id: String, connection: ServerConnection)
    extends AutoCloseable {
  override def close(): Unit = {
    Try(connection.close())
    connection.abort()
  }
}

object SlotSnapshot {
  private val FirstWithOptions = 15

  /**
   * Makes a snapshot. The server waits for the end of all transactions that have written something.
   *
   * @param what what the server does, for warnings
   * @param atMost how long to wait
   * @throws ServerStillWaits if it takes longer
   */
  def make(
      from: CopySource,
      what: String,
      atMost: Duration
  ): SlotSnapshot = ConnectionError.explaining(from.address) {
    import from.address
    val connection =
      CopySession.allRows(Connections.openReplication(address, from.applicationName))
    try {
      val lsn =
        ServerWait.watched(address, connection, what, Some(atMost))(begin(address, connection))
      new SlotSnapshot(lsn, CopySession.exportSnapshot(connection), connection)
    } catch {
      case error: Throwable =>
        connection.abort()
        throw error
    }
  }

  /**
   * Begins a transaction that has the snapshot of a new temporary slot, and drops the slot. The transaction
   * itself keeps the rows of the snapshot (`RestoreTransactionSnapshot` in `snapmgr.c`). The slot would
   * also keep all WAL for as long as the copy takes.
   *
   * @return the slot's consistent point
   */
  private[copy] def begin(address: ServerAddress, connection: ReplicationConnection): Long = {
    CopySession.begin(connection)
    val slot = s"spark_pgoutput_copy_${UUID.randomUUID().toString.replace("-", "")}"
    val snapshot =
      if (connection.majorVersion < FirstWithOptions) "USE_SNAPSHOT" else "(SNAPSHOT 'use')"
    try {
      val lsn = connection
        .query(s"CREATE_REPLICATION_SLOT $slot TEMPORARY LOGICAL pgoutput $snapshot")(row =>
          Lsn.parse(row.getString("consistent_point")).get
        )
        .head
      connection.query(s"SELECT pg_drop_replication_slot('$slot')")(_ => ())
      lsn
    } catch {
      case error: SQLException =>
        throw ConnectionError.ofSetup(error, address).getOrElse(SlotError.notCreated(slot, error))
    }
  }
}
