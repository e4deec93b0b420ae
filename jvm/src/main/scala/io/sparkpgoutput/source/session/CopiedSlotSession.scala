package io.sparkpgoutput.source.session

import java.util.UUID
import java.util.concurrent.TimeUnit

import io.sparkpgoutput.source.connection.{ConnectionError, Connections}
import io.sparkpgoutput.source.slot.{SlotState, WalEnd}

/** Starts a session that reads a temporary copy of a slot, so that the slot stays as it is. */
object CopiedSlotSession {
  private val StatusInterval = TimeUnit.MILLISECONDS.toNanos(500)

  /** Returns the session, and the LSN below which there is all that was committed before. */
  def start(settings: SessionSettings): (SlotSession, Long) = {
    val connection = Connections.openReplication(settings.address, settings.applicationName)
    try ConnectionError.explaining(settings.address) {
        val copied = s"spark_pgoutput_${UUID.randomUUID().toString.replace("-", "_")}"
        connection.query(
          "SELECT pg_copy_logical_replication_slot(?, ?, true)",
          settings.slot,
          copied
        )(_ => ())
        val begin = SlotState.read(connection, copied).flatMap(_.confirmedFlush).get
        val end = WalEnd.next(connection)
        val session = new SlotSession(
          settings.address,
          connection,
          connection.start(copied, begin, settings.pluginOptions),
          s"spark-pgoutput copy of slot ${settings.slot}",
          () => false,
          StatusInterval
        )
        session.start()
        session -> end
      }
    catch {
      case error: Throwable =>
        connection.abort()
        throw error
    }
  }
}
