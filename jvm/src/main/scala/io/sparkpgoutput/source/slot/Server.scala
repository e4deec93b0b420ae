package io.sparkpgoutput.source.slot

import java.util.concurrent.atomic.AtomicBoolean

import org.apache.spark.internal.Logging

import io.sparkpgoutput.source.connection.{ReplicationConnection, ServerConnection}

/**
 * A server, as it describes itself.
 *
 * @param systemIdentifier
 *   the number that initdb gave to the cluster; its standbys and copies have the same
 * @param timeline the timeline that the server is on; a standby has that of the WAL that it replays
 * @param version `server_version_num`, such as 180004
 * @param walBlockSize the size of a page of WAL in bytes
 * @param inRecovery whether the server is a standby
 */
final case class Server(
    systemIdentifier: String,
    timeline: Int,
    database: String,
    version: Int,
    walBlockSize: Int,
    inRecovery: Boolean
) {

  /** The major version, such as 18. */
  def majorVersion: Int = version / 10000
}

object Server extends Logging {
  val OldestVersion = 14
  private val NewestVersion = 18
  private val hasWarned = new AtomicBoolean

  /** Asks the server. Fails if the server is older than PostgreSQL 14. */
  def of(connection: ReplicationConnection): Server = {
    // IDENTIFY_SYSTEM knows a standby's timeline. SQL has only that of its last checkpoint.
    val (systemIdentifier, timeline) = connection
      .query("IDENTIFY_SYSTEM")(row => (row.getString("systemid"), row.getInt("timeline")))
      .head
    val server = connection
      .query(
        "SELECT current_database() AS database, " +
          "current_setting('server_version_num')::int AS version, " +
          "current_setting('wal_block_size')::int AS block_size, " +
          "pg_is_in_recovery() AS in_recovery"
      ) { row =>
        Server(
          systemIdentifier,
          timeline,
          row.getString("database"),
          row.getInt("version"),
          row.getInt("block_size"),
          row.getBoolean("in_recovery")
        )
      }
      .head
    if (server.majorVersion < OldestVersion) throw SlotError.serverVersion(server, OldestVersion)
    if (server.majorVersion > NewestVersion && hasWarned.compareAndSet(false, true))
      logWarning(
        s"The server has PostgreSQL ${server.majorVersion}. This version of spark-pgoutput was tried " +
          s"with PostgreSQL $OldestVersion to $NewestVersion."
      )
    server
  }

  /** Returns the major version of a server, such as 18. */
  def majorVersion(connection: ServerConnection): Int =
    connection.query("SELECT current_setting('server_version_num')::int / 10000")(_.getInt(1)).head

  /** The server's expression for the end of the WAL that a slot can be read to. */
  private[slot] val FlushLsn =
    "CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END"

  /** Returns the end of the WAL that is safe on disk. On a standby, it is the end of the replay. */
  def flushLsn(connection: ServerConnection): Long =
    connection.query(s"SELECT ($FlushLsn)::text")(row => SlotState.lsn(row.getString(1))).head
}
