package io.sparkpgoutput.source.slot

import java.sql.SQLException
import java.time.Duration

import scala.annotation.tailrec
import scala.util.Using

import io.sparkpgoutput.errors.SourceException
import io.sparkpgoutput.source.connection.{
  ConnectionError,
  Connections,
  ServerAddress,
  ServerConnection,
  SqlState
}

/**
 * Makes a slot. A new slot begins where no transaction is open, so the server waits for the end of
 * all transactions that are open then.
 */
object SlotCreation {
  private val FirstVersionWithFailover = 17

  /**
   * Makes a slot, and waits until it is ready. It does nothing if the slot exists. An interrupt of the
   * thread ends the wait, and the server removes the slot that is not ready.
   *
   * @param failover
   *   whether the server's standbys keep a copy of the slot, which PostgreSQL 17 and later can do
   */
  def create(address: ServerAddress, slot: String, failover: Boolean): Unit = {
    val connection = Connections.open(address)
    try
      ServerWait.watched[Unit](address, connection, s"The server makes the slot '$slot'") {
        val version = connection.majorVersion
        if (failover && version < FirstVersionWithFailover)
          throw new SourceException(
            "PGOUTPUT_SERVER_VERSION.FAILOVER",
            "oldest" -> FirstVersionWithFailover,
            "version" -> version
          )
        val arguments = if (failover) "?, 'pgoutput', failover => true" else "?, 'pgoutput'"
        try
          connection.query(s"SELECT pg_create_logical_replication_slot($arguments)", slot)(_ => ())
        catch {
          case error: SQLException if error.getSQLState == SqlState.DuplicateObject => ()
          case error: SQLException =>
            throw ConnectionError.ofCreation(error, address, slot)
        }
      }
    finally connection.abort()
  }
}

/** Drops a slot. The server then forgets all changes that it kept for it. */
object SlotRemoval {
  private val Limit = Duration.ofSeconds(20)
  final private val PauseMillis = 20L

  /**
   * Drops a slot. It does nothing if there is no such slot.
   *
   * @param mayEnd whether a session that has the slot may be ended
   */
  def drop(address: ServerAddress, slot: String)(mayEnd: SlotHolder => Boolean): Unit =
    ConnectionError.explaining(address) {
      Using.resource(Connections.open(address))(
        drop(_, slot, mayEnd, System.nanoTime() + Limit.toNanos)
      )
    }

  @tailrec private def drop(
      connection: ServerConnection,
      slot: String,
      mayEnd: SlotHolder => Boolean,
      deadline: Long
  ): Unit = {
    val inUse =
      try {
        connection.query("SELECT pg_drop_replication_slot(?)", slot)(_ => ())
        None
      } catch {
        case error: SQLException if error.getSQLState == SqlState.UndefinedObject => None
        case error: SQLException if error.getSQLState == SqlState.ObjectInUse     => Some(error)
      }
    if (inUse.nonEmpty) {
      // None if the session has ended since.
      val holder = SlotState.read(connection, slot).flatMap(_.holder)
      if (!holder.forall(mayEnd) || System.nanoTime() > deadline)
        throw holder.fold[Throwable](inUse.get)(_.error(slot))
      holder.foreach(found => connection.terminate(found.pid))
      Thread.sleep(PauseMillis)
      drop(connection, slot, mayEnd, deadline)
    }
  }
}
