package io.sparkpgoutput.source.slot

import java.util.concurrent.TimeUnit.SECONDS
import java.util.concurrent.{ExecutionException, FutureTask, TimeoutException}

import scala.util.Try

import org.apache.spark.internal.Logging

import io.sparkpgoutput.source.connection.{Connections, ServerAddress, ServerConnection}

/** Statements that can wait for other transactions, and tell for which ones. */
object ServerWait extends Logging {
  private val ApplicationName = "spark-pgoutput"
  private val SecondsBetweenWarnings = 10L
  private val SecondsToCancel = 10L

  /**
   * Runs statements of a connection on a thread of their own, and logs every 10 seconds what the server
   * waits for. An interrupt of the calling thread cancels the statement that runs.
   *
   * @param what
   *   what the server does, such as `The server makes the slot 's'`
   */
  def watched[T](
      address: ServerAddress,
      connection: ServerConnection,
      what: String
  )(run: => T): T = {
    val task = new FutureTask[T](() => run)
    val thread = new Thread(task, s"spark-pgoutput waits: $what")
    thread.setDaemon(true)
    thread.start()
    try {
      while (!isDone(task)) warn(address, connection.pid, what)
      task.get()
    } catch {
      case failed: ExecutionException        => throw failed.getCause
      case interrupted: InterruptedException =>
        // To close the connection is not enough: the server looks at it only after the wait.
        Try(connection.cancel())
        Try(task.get(SecondsToCancel, SECONDS))
        throw interrupted
    }
  }

  private def isDone(task: FutureTask[_]): Boolean =
    try {
      task.get(SecondsBetweenWarnings, SECONDS)
      true
    } catch {
      case _: TimeoutException => false
    }

  /** Logs what the server waits for. The statement goes on if this fails. */
  private def warn(address: ServerAddress, pid: Int, what: String): Unit = Try {
    val watcher = Connections.open(address, ApplicationName)
    try
      waitsFor(watcher, pid).foreach { blocking =>
        logWarning(s"$what, but waits for the end of $blocking.")
      }
    finally watcher.abort()
  }.failed.foreach(error => logDebug(s"$what. The wait has no known reason", error))

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
