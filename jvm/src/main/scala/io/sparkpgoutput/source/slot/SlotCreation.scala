package io.sparkpgoutput.source.slot

import java.sql.SQLException
import java.util.concurrent.TimeUnit.SECONDS
import java.util.concurrent.{ExecutionException, FutureTask, TimeoutException}

import scala.util.Try

import org.apache.spark.internal.Logging

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
object SlotCreation extends Logging {
  private val ApplicationName = "spark-pgoutput"
  private val FirstVersionWithFailover = 17
  private val DuplicateObject = "42710"
  private val SecondsBetweenWarnings = 10L
  private val SecondsToCancel = 10L

  /**
   * Makes a slot, and waits until it is ready. It does nothing if the slot exists. An interrupt of the
   * thread ends the wait, and the server removes the slot that is not ready.
   *
   * @param failover
   *   whether the server's standbys keep a copy of the slot, which PostgreSQL 17 and later can do
   */
  def create(address: ServerAddress, slot: String, failover: Boolean): Unit = {
    val connection = Connections.open(address, ApplicationName)
    val creation = new FutureTask[Unit](() => create(address, connection, slot, failover))
    val thread = new Thread(creation, s"spark-pgoutput makes the slot $slot")
    thread.setDaemon(true)
    thread.start()
    try await(creation, address, slot, connection.pid)
    catch {
      case interrupted: InterruptedException =>
        // To close the connection is not enough: the server looks at it only after the wait.
        Try(connection.cancel())
        Try(creation.get(SecondsToCancel, SECONDS))
        throw interrupted
    } finally connection.abort()
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

  private def await(
      creation: FutureTask[Unit],
      address: ServerAddress,
      slot: String,
      pid: Int
  ): Unit =
    try {
      while (!isDone(creation)) warn(address, slot, pid)
      creation.get()
    } catch {
      case failed: ExecutionException => throw failed.getCause
    }

  private def isDone(creation: FutureTask[Unit]): Boolean =
    try {
      creation.get(SecondsBetweenWarnings, SECONDS)
      true
    } catch {
      case _: TimeoutException => false
    }

  /** Logs what the server waits for. The creation goes on if this fails. */
  private def warn(address: ServerAddress, slot: String, pid: Int): Unit = Try {
    val watcher = Connections.open(address, ApplicationName)
    try
      waitsFor(watcher, pid).foreach { blocking =>
        logWarning(s"The server makes the slot '$slot', but waits for the end of $blocking.")
      }
    finally watcher.abort()
  }.failed.foreach(error => logDebug(s"The wait for the slot '$slot' has no known reason", error))

  /** Names the transactions that a process waits for. */
  def waitsFor(connection: ServerConnection, pid: Int): Option[String] = {
    val blocking = connection.query("SELECT unnest(pg_blocking_pids(?))", pid)(_.getInt(1)).distinct
    // A prepared transaction has no process: pg_blocking_pids gives 0 for it.
    val (prepared, processes) = blocking.partition(_ == 0)
    val isStandby = connection.query("SELECT pg_is_in_recovery()")(_.getBoolean(1)).head
    val named = Seq(
      Option.when(processes.nonEmpty)(
        s"the transactions of these processes: ${processes.mkString(", ")} (see pg_stat_activity)"
      ),
      Option.when(prepared.nonEmpty)("a prepared transaction (see pg_prepared_xacts)"),
      Option.when(isStandby)(
        "the transactions that are open on the primary server, which tells them by " +
          "SELECT pg_log_standby_snapshot()"
      )
    ).flatten
    Option.when(named.nonEmpty)(named.mkString(" and of "))
  }
}
