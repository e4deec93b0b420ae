package io.sparkpgoutput.source.session

import java.sql.SQLException
import java.util.UUID
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicBoolean

import scala.annotation.tailrec
import scala.util.Using

import org.apache.spark.TaskContext
import org.apache.spark.internal.Logging

import org.postgresql.copy.CopyDual

import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.source.connection._
import io.sparkpgoutput.source.slot.{Server, SlotChecks, SlotHolder, SlotState, WalEnd}

/** Starts a session at the start of a batch, after all checks. */
final class SessionStart private (read: BatchRead, sql: ServerConnection) extends Logging {
  import SessionStart._
  import read.settings

  private var nextWarning = System.nanoTime() + WarningInterval

  private def start(patience: Long): KeptSession = {
    val connection = Connections.openReplication(settings.address, settings.applicationName)
    connection.orAbort {
      // The last session was lost, perhaps because a message took too long.
      if (patience > 0) connection.waitForLongMessages()
      val server = Server.of(connection)
      // The driver notes a new timeline before it plans a batch. If the server is promoted during a batch, a batch that
      // ends above the switch would be committed without a note of the timeline from which its end comes.
      val timelines = SlotChecks.timeline(
        connection,
        server,
        read.identity.timelines,
        read.start,
        Some(read.end)
      )
      SlotChecks.publications(sql, settings.publications)
      checkSlot(server)
      val copy = startReplication(connection, System.nanoTime() + patience)
      // Nobody can move the slot from here on.
      val state = checkSlot(server)
      missingWal(settings.slot, read.end, state.flushLsn).foreach(text => logWarning(text))
      val interval = ReplicationProtocol.statusInterval(sql)
      val session = new SlotSession(settings, connection, copy, name(settings), interval).start()
      val begun = read.copy(identity = read.identity.copy(timelines = timelines))
      new KeptSession(session, read.output.rows(), begun, read.start)
    }
  }

  private def checkSlot(server: Server) =
    SlotChecks.beforeReading(SlotState.read(sql, settings.slot), server, read.identity, read.start)

  /** Waits for the slot if an earlier session of this source has it. A task that was killed does not take it. */
  @tailrec
  private def startReplication(connection: ReplicationConnection, deadline: Long): CopyDual = {
    KilledTask.check()
    val started = SlotState.read(sql, settings.slot).flatMap(_.holder) match {
      case Some(holder) =>
        if (SessionSettings.isOfSource(settings.id, holder.applicationName)) endIfUnused(holder)
        else if (System.nanoTime() > deadline)
          throw holder.error(settings.slot)
        None
      case None => tryToStart(connection)
    }
    started match {
      case Some(copy) => copy
      case None =>
        Thread.sleep(PauseMillis)
        startReplication(connection, deadline)
    }
  }

  /** Returns None if the slot is in use, as it can be for 30 ms after its session has ended. */
  private def tryToStart(connection: ReplicationConnection): Option[CopyDual] =
    try {
      SlotSessions.begins(settings.id, connection.pid)
      Some(connection.start(settings.slot, read.start, settings.pluginOptions))
    } catch { case error: SQLException if error.getSQLState == SqlState.ObjectInUse => None }

  /**
   * Ends another session of this source, unless a task of another executor reads from it. The server shows this only
   * to a role with the rights of `pg_read_all_stats`. Without them, the first attempt of a task knows that the
   * previous batch is done, and a later attempt waits until the earlier one ends.
   */
  private def endIfUnused(holder: SlotHolder): Unit = {
    def isParked = holder.applyLsn match {
      case Some(state) => state == SlotSession.Parked
      case None =>
        warnOfHiddenState()
        Option(TaskContext.get()).forall(_.attemptNumber() == 0)
    }
    if (SlotSessions.isOver(settings.id, holder.pid) || isParked) sql.terminate(holder.pid)
    else if (System.nanoTime() > nextWarning) {
      logWarning(
        s"The slot ${settings.slot} is in use by an earlier attempt of this batch, the process " +
          s"${holder.pid} of the server. The attempt waits for its end."
      )
      nextWarning = System.nanoTime() + WarningInterval
    }
  }

  /**
   * Warns once if the role cannot see the state of sessions. A role that can sees none before the first status update.
   */
  private def warnOfHiddenState(): Unit =
    if (!hasWarned.get && !seesStates && hasWarned.compareAndSet(false, true))
      logWarning(
        "The role cannot see whether a task reads from the session that has the slot " +
          s"${settings.slot}. Tasks that read a batch at the same time end each other's sessions, and " +
          "a second attempt of a task can wait for 10 minutes. Grant pg_read_all_stats to the role."
      )

  private def seesStates =
    sql.query("SELECT pg_has_role('pg_read_all_stats', 'USAGE')")(_.getBoolean(1)).head
}

object SessionStart {
  private val hasWarned = new AtomicBoolean
  final private val PauseMillis = 20L
  private val WarningInterval = TimeUnit.SECONDS.toNanos(10)

  /**
   * Starts a session.
   *
   * @param patience
   *   the time in nanoseconds to wait for a slot that somebody else uses; 0 unless the last session was lost
   */
  def start(read: BatchRead, patience: Long): KeptSession =
    ConnectionError.explaining(read.settings.address) {
      val settings = read.settings
      Using.resource(Connections.open(settings.address, s"${name(settings)} (checks)")) { sql =>
        new SessionStart(read, sql).start(patience)
      }
    }

  /**
   * Returns a warning if the WAL of a server ends below the end of a batch. The batch was planned on another server
   * then, which had more WAL than the one that was promoted, and the session waits for the rest.
   */
  private[session] def missingWal(slot: String, end: Long, flushLsn: Long): Option[String] =
    Option.when(Lsn.isBelow(flushLsn, end))(
      s"The batch of the slot $slot ends at the LSN ${Lsn.format(end)}, but the WAL of the server ends at " +
        s"${Lsn.format(flushLsn)}. The batch ends when the server has written up to its end. If " +
        "nobody writes, SELECT pg_switch_wal() can help."
    )

  private[session] def name(settings: SessionSettings) = s"spark-pgoutput slot ${settings.slot}"
}

/** Starts a session that reads a temporary copy of a slot, so that the slot stays as it is. */
object CopiedSlotSession {
  private val StatusInterval = TimeUnit.MILLISECONDS.toNanos(500)

  /** Returns the session, and the LSN below which there is all that was committed before. */
  def start(settings: SessionSettings): (SlotSession, Long) = {
    val connection = Connections.openReplication(settings.address, settings.applicationName)
    connection.orAbort(ConnectionError.explaining(settings.address) {
      connection.waitForLongMessages() // A failed read does not try again, and nobody else needs the copy.
      val copied = s"spark_pgoutput_${UUID.randomUUID().toString.replace("-", "_")}"
      connection.query(
        "SELECT pg_copy_logical_replication_slot(?, ?, true)",
        settings.slot,
        copied
      )(_ => ())
      val begin = SlotState.read(connection, copied).flatMap(_.confirmedFlush).get
      val end = WalEnd.next(connection)
      val session = new SlotSession(
        settings,
        connection,
        connection.start(copied, begin, settings.pluginOptions),
        s"spark-pgoutput copy of slot ${settings.slot}",
        StatusInterval
      )
      session.start() -> end
    })
  }
}
