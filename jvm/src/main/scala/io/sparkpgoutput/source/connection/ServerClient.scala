package io.sparkpgoutput.source.connection

import java.sql.SQLException

import scala.util.Using

/**
 * The driver's connections to a server. The ordinary one stays, and is opened again if it is lost. Threads
 * use it one after the other.
 */
final class ServerClient(address: ServerAddress, applicationName: String) extends AutoCloseable {
  private var connection: Option[ServerConnection] = None
  private var openedConnections = 0

  /** The number of ordinary connections so far. A new one can lead to another server. */
  def connections: Int = synchronized(openedConnections)

  /** Runs a query, a second time on a new connection if the old one is lost. */
  def query[T](run: ServerConnection => T): T = synchronized(ConnectionError.explaining(address) {
    try run(connection.getOrElse(open()))
    catch {
      case error: SQLException if connection.isDefined && ConnectionError.isLost(error) =>
        close()
        run(open())
    }
  })

  /** Runs commands on a replication connection of their own. */
  def replication[T](run: ReplicationConnection => T): T =
    ConnectionError.explaining(address) {
      Using.resource(Connections.openReplication(address, applicationName))(run)
    }

  private def open() = {
    val made = Connections.open(address, applicationName)
    connection = Some(made)
    openedConnections += 1
    made
  }

  override def close(): Unit = synchronized {
    connection.foreach(_.abort())
    connection = None
  }
}
