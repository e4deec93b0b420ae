package io.sparkpgoutput.source.connection

import java.util.Properties

import org.postgresql.Driver

/** Opens connections to a server with the pgjdbc that is in this JAR. */
object Connections {

  /** The parameters of a connection that a URL must not change. */
  private val fixed = Map("assumeMinServerVersion" -> "14", "tcpKeepAlive" -> "true")

  private val replication =
    Map("replication" -> "database", "preferQueryMode" -> "simple", "socketTimeout" -> "0")

  private lazy val driver: Driver = {
    val made = new Driver
    // The class registers itself when it is loaded. `format("jdbc")` is to find its own driver.
    if (Driver.isRegistered) Driver.deregister()
    made
  }

  /**
   * Opens an ordinary connection.
   *
   * @param applicationName
   *   what `pg_stat_activity` shows
   */
  def open(address: ServerAddress, applicationName: String): ServerConnection =
    new ServerConnection(connect(address, fixed + ("ApplicationName" -> applicationName)))

  /** Opens a connection for the replication protocol. */
  def openReplication(address: ServerAddress, applicationName: String): ReplicationConnection =
    new ReplicationConnection(
      connect(address, fixed ++ replication + ("ApplicationName" -> applicationName))
    )

  private def connect(address: ServerAddress, parameters: Map[String, String]) = {
    val properties = new Properties
    address.user.foreach(properties.setProperty("user", _))
    address.password.foreach(properties.setProperty("password", _))
    parameters.foreach { case (name, value) => properties.setProperty(name, value) }
    driver.connect(address.url, properties)
  }
}
