package io.sparkpgoutput.source.slot

import java.sql.SQLException

import io.sparkpgoutput.source.connection.{
  ConnectionError,
  Connections,
  ServerAddress,
  ServerConnection
}

/**
 * Makes a slot. A new slot begins where no transaction is open, so the server waits for the end of
 * all transactions that are open then.
 */
object SlotCreation {
  private val ApplicationName = "spark-pgoutput"
  private val FirstVersionWithFailover = 17
  private val DuplicateObject = "42710"

  /**
   * Makes a slot, and waits until it is ready. It does nothing if the slot exists. An interrupt of the
   * thread ends the wait, and the server removes the slot that is not ready.
   *
   * @param failover
   *   whether the server's standbys keep a copy of the slot, which PostgreSQL 17 and later can do
   */
  def create(address: ServerAddress, slot: String, failover: Boolean): Unit = {
    val connection = Connections.open(address, ApplicationName)
    try
      ServerWait.watched(address, connection, s"The server makes the slot '$slot'") {
        create(address, connection, slot, failover)
      }
    finally connection.abort()
  }

  private def create(
      address: ServerAddress,
      connection: ServerConnection,
      slot: String,
      failover: Boolean
  ): Unit = {
    val version = connection.majorVersion
    if (failover && version < FirstVersionWithFailover)
      throw SlotError.noFailover(version, FirstVersionWithFailover)
    val arguments = if (failover) "?, 'pgoutput', failover => true" else "?, 'pgoutput'"
    try connection.query(s"SELECT pg_create_logical_replication_slot($arguments)", slot)(_ => ())
    catch {
      case error: SQLException if error.getSQLState == DuplicateObject => ()
      case error: SQLException =>
        throw ConnectionError.ofSetup(error, address).getOrElse(SlotError.notCreated(slot, error))
    }
  }
}
