package io.sparkpgoutput.source.connection

import java.sql.Connection

import org.postgresql.PGConnection
import org.postgresql.copy.CopyDual

import io.sparkpgoutput.protocol.Lsn

/**
 * A connection that speaks the replication protocol, and SQL too.
 *
 * @see PostgreSQL documentation, "Streaming Replication Protocol"
 */
final class ReplicationConnection(connection: Connection) extends ServerConnection(connection) {

  /** Tells whether the server has a walsender for it. A pooler can leave out the request for one. */
  private[connection] def isWalsender: Boolean =
    query("SELECT backend_type FROM pg_stat_activity WHERE pid = pg_backend_pid()")(_.getString(1))
      .contains("walsender")

  /** Starts to read WAL as it is. From then on the connection runs no other statement. */
  def startPhysical(lsn: Long): CopyDual = connection.unwrap(classOf[PGConnection]).getCopyAPI
    .copyDual(s"START_REPLICATION PHYSICAL ${Lsn.format(lsn)}")

  /**
   * Starts to read a slot. From then on the connection runs no other statement. It has no time limits:
   * the server decodes each transaction in one of its own, to which `transaction_timeout` would apply
   * (`reorderbuffer.c`, ReorderBufferProcessTXN).
   *
   * It is pgjdbc's `CopyDual` and not its `PGReplicationStream`, because the latter repeats the
   * confirmed LSN in each status update, which makes a fast shutdown of the server wait for ever.
   *
   * @param options the options of pgoutput
   */
  def start(slot: String, lsn: Long, options: Seq[(String, String)]): CopyDual = {
    val written = options.map { case (name, value) => s"$name '${value.replace("'", "''")}'" }
    // In quotes, because the name of a slot can begin with a digit.
    connection.unwrap(classOf[PGConnection]).getCopyAPI.copyDual(
      s"""START_REPLICATION SLOT "$slot" LOGICAL ${Lsn.format(lsn)} (${written.mkString(", ")})"""
    )
  }
}
