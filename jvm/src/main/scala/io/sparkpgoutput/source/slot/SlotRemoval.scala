package io.sparkpgoutput.source.slot

import java.sql.SQLException

import scala.util.Using

import io.sparkpgoutput.source.SourceError
import io.sparkpgoutput.source.connection.{ConnectionError, Connections, ServerAddress}

/** Drops a slot that nobody reads. The server then forgets all changes that it kept for it. */
object SlotRemoval {
  private val ApplicationName = "spark-pgoutput"
  private val UndefinedObject = "42704"
  private val ObjectInUse = "55006"

  /** Drops a slot. It does nothing if there is no such slot. */
  def drop(address: ServerAddress, slot: String): Unit = ConnectionError.explaining(address) {
    Using.resource(Connections.open(address, ApplicationName)) { connection =>
      try connection.query("SELECT pg_drop_replication_slot(?)", slot)(_ => ()): Unit
      catch {
        case error: SQLException if error.getSQLState == UndefinedObject => ()
        case error: SQLException if error.getSQLState == ObjectInUse =>
          val holder = SlotState.read(connection, slot).flatMap(_.holder)
          throw holder.fold[Throwable](error)(holder =>
            SourceError.slotInUse(slot, holder.pid, holder.applicationName)
          )
      }
    }
  }
}
