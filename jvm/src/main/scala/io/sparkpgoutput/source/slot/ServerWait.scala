package io.sparkpgoutput.source.slot

import java.time.Duration
import java.util.concurrent.TimeUnit.{NANOSECONDS, SECONDS}
import java.util.concurrent.{ExecutionException, FutureTask}

import scala.util.{Try, Using}

import org.apache.spark.internal.Logging

import io.sparkpgoutput.source.connection.{Connections, ServerAddress, ServerConnection}

/** Runs statements that can wait for other transactions, and logs which ones they wait for. */
object ServerWait extends Logging {
  private val BetweenWarnings = SECONDS.toNanos(10)
  private val SecondsToCancel = 10L

  /**
   * Runs statements of a connection on a thread of their own, and logs every 10 seconds what the server
   * waits for. An interrupt of the calling thread cancels the statement that runs.
   *
   * @param what what the server does, such as `The server makes the slot 's'`
   * @param atMost how long to wait; None for ever
   * @throws ServerStillWaits if it takes longer. The statement is cancelled then.
   */
  def watched[T](
      address: ServerAddress,
      connection: ServerConnection,
      what: String,
      atMost: Option[Duration] = None
  )(run: => T): T = {
    val task = new FutureTask[T](() => run)
    val thread = new Thread(task, s"spark-pgoutput waits: $what")
    thread.setDaemon(true)
    thread.start()
    val began = System.nanoTime()
    def left = atMost.map(_.toNanos - (System.nanoTime() - began))

    /** Waits until the next warning is due, and returns whether the task is done. */
    def isDone = {
      NANOSECONDS.timedJoin(thread, left.fold(BetweenWarnings)(math.min(_, BetweenWarnings)))
      task.isDone
    }
    try {
      while (!isDone) {
        val blocking = reason(address, connection.pid, what)
        if (left.exists(_ <= 0)) throw new ServerStillWaits(what, blocking)
        blocking.foreach(blocking => logWarning(s"$what, but waits for the end of $blocking."))
      }
      task.get()
    } catch {
      case failed: ExecutionException                              => throw failed.getCause
      case ended @ (_: InterruptedException | _: ServerStillWaits) =>
        // To close the connection is not enough: the server looks at it only after the wait.
        Try(connection.cancel())
        Try(task.get(SecondsToCancel, SECONDS))
        throw ended
    }
  }

  /** Finds out what the server waits for. The statement goes on if this fails. */
  private def reason(address: ServerAddress, pid: Int, what: String): Option[String] =
    Using(Connections.open(address))(waitsFor(_, pid)).recover { case error =>
      logDebug(s"$what. The wait has no known reason", error)
      None
    }.get

  /** Names the transactions that a process waits for. */
  def waitsFor(connection: ServerConnection, pid: Int): Option[String] = {
    val blocking = connection.query("SELECT unnest(pg_blocking_pids(?))", pid)(_.getInt(1)).distinct
    // A prepared transaction has no process: pg_blocking_pids gives 0 for it.
    val (prepared, processes) = blocking.partition(_ == 0)
    val named = Seq(
      Option.when(processes.nonEmpty)(
        s"the transactions of these processes: ${processes.mkString(", ")} (see pg_stat_activity)"
      ),
      Option.when(prepared.nonEmpty)("a prepared transaction (see pg_prepared_xacts)"),
      Option.when(Server.isStandby(connection))(
        "the transactions that are open on the primary server (run SELECT " +
          "pg_log_standby_snapshot() there to send their list)"
      )
    ).flatten
    Option.when(named.nonEmpty)(named.mkString(" and of "))
  }
}

/**
 * The server has not ended a statement in time.
 *
 * @param forWhat the transactions that it waits for
 */
final class ServerStillWaits(what: String, val forWhat: Option[String])
    extends RuntimeException(
      s"$what, but waits for the end of ${forWhat.getOrElse("open transactions")}."
    )
