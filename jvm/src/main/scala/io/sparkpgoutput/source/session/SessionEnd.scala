package io.sparkpgoutput.source.session

import java.time.Duration

import scala.util.Using
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging

import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.source.connection.{Connections, ReplicationProtocol, ServerConnection}
import io.sparkpgoutput.source.slot.{Server, SlotChecks, SlotState, SourceIdentity}

/**
 * Ends the session of a source at the end of a query, on whichever executor it is, and confirms an LSN to the server.
 *
 * @param source
 *   the source that was read. If the address now leads to another server, nothing is confirmed there.
 * @param committed the LSN below which all is committed in Spark; 0 if that is not known
 */
final class SessionEnd(settings: SessionSettings, source: SourceIdentity, committed: Long)
    extends Logging {
  private val Limit = Duration.ofSeconds(10)
  final private val PauseMillis = 20L

  /**
   * Ends the session. This takes at most 10 seconds and never fails. If the LSN is not confirmed, the slot is behind,
   * which does no harm.
   */
  def run(): Unit = {
    val ending = new Thread(() => endNow(), s"end of ${settings.applicationName}")
    ending.setDaemon(true)
    ending.start()
    // Spark interrupts the thread of a query that it stops.
    val wasInterrupted = Thread.interrupted()
    try ending.join(Limit.toMillis)
    finally if (wasInterrupted) Thread.currentThread().interrupt()
    if (ending.isAlive) logWarning(s"The session of the slot ${settings.slot} did not end in time.")
  }

  private def endNow(): Unit =
    try {
      SlotSessions.end(settings)
      Using.resource(Connections.open(settings.address, s"${settings.applicationName} (end)")) {
        sql =>
          freeSlot(sql).foreach { slot =>
            val confirmed = slot.confirmedFlush.getOrElse(0L)
            if (Lsn.isBelow(confirmed, committed) && !Lsn.isBelow(slot.flushLsn, committed))
              confirm(sql)
          }
      }
    } catch {
      case NonFatal(error) =>
        logWarning(
          s"The query could not confirm to the slot ${settings.slot} what is committed: ${error.getMessage}"
        )
    }

  /**
   * Ends the session that has the slot, if this start of the query made it. Returns None if it belongs to
   * somebody else, for example to a later start of the same query, which can begin before this one has ended.
   */
  private def freeSlot(sql: ServerConnection): Option[SlotState] = {
    var state = SlotState.read(sql, settings.slot)
    def own = state.flatMap(_.holder).filter(_.applicationName == settings.applicationName)
    val deadline = System.nanoTime() + Limit.toNanos
    while (own.isDefined && System.nanoTime() < deadline) {
      own.foreach(holder => sql.terminate(holder.pid))
      Thread.sleep(PauseMillis)
      state = SlotState.read(sql, settings.slot)
    }
    state.filter(_.holder.isEmpty)
  }

  private def confirm(sql: ServerConnection): Unit = {
    val connection = Connections.openReplication(settings.address, settings.applicationName)
    try {
      val server = Server.of(connection)
      SlotChecks.timeline(connection, server, source.timelines, committed)
      SlotChecks.beforeReading(SlotState.read(sql, settings.slot), server, source, committed)
      val copy = connection.start(settings.slot, committed, settings.pluginOptions)
      val update = ReplicationProtocol.statusUpdate(committed, committed, 0, askReply = false)
      copy.writeToCopy(update, 0, update.length)
      copy.flushCopy()
      val deadline = System.nanoTime() + Limit.toNanos
      while (isBehind(sql) && System.nanoTime() < deadline)
        Thread.sleep(PauseMillis)
    } finally connection.abort()
  }

  private def isBehind(sql: ServerConnection) =
    SlotState.read(sql, settings.slot).flatMap(_.confirmedFlush).exists(Lsn.isBelow(_, committed))
}
