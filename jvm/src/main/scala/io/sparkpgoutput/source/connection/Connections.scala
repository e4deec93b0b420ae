package io.sparkpgoutput.source.connection

import java.sql.Connection
import java.util.Properties
import java.util.logging.{Level, Logger}

import org.postgresql.{Driver, PGProperty}

/** Opens connections to a server with the pgjdbc that is in this JAR. */
object Connections {

  /** What the URL's parameters can change. */
  private val defaults = Map(
    PGProperty.TCP_KEEP_ALIVE -> "true",
    PGProperty.SOCKET_FACTORY -> classOf[KeepAliveSockets].getName
  )

  private val replication = Map(
    PGProperty.REPLICATION -> "database",
    PGProperty.PREFER_QUERY_MODE -> "simple" // the walsender knows no other
  )

  /** The parent of the driver's loggers, which would be forgotten if nobody referred to it. */
  private val log = Logger.getLogger(classOf[Driver].getPackageName)

  private lazy val driver: Driver = {
    // The driver's debug log can quote the URL's parameters. Somebody who wants it sets its level.
    if (log.getLevel == null) log.setLevel(Level.INFO)
    val made = new Driver
    // The class registers itself when it is loaded. `format("jdbc")` is to find its own driver.
    if (Driver.isRegistered) Driver.deregister()
    made
  }

  /**
   * Opens an ordinary connection. No time limit applies to it, whatever the role has.
   *
   * @param applicationName what `pg_stat_activity` shows
   */
  def open(address: ServerAddress, applicationName: String): ServerConnection =
    open(address, applicationName, Map.empty)(new ServerConnection(_))

  /** Opens a connection for the replication protocol, without time limits too. */
  def openReplication(address: ServerAddress, applicationName: String): ReplicationConnection =
    open(address, applicationName, replication) { made =>
      val connection = new ReplicationConnection(made)
      if (!connection.isWalsender) throw ConnectionError.noWalsender(address)
      connection
    }

  private def open[T <: ServerConnection](
      address: ServerAddress,
      applicationName: String,
      parameters: Map[PGProperty, String]
  )(made: Connection => T): T = ConnectionError.explaining(address) {
    val connected = connect(address, applicationName, parameters)
    try {
      val connection = made(connected)
      SessionSetup.run(connection)
      connection
    } catch {
      case error: Throwable =>
        connected.abort(_.run())
        throw error
    }
  }

  private def connect(
      address: ServerAddress,
      applicationName: String,
      parameters: Map[PGProperty, String]
  ) = {
    val properties = propertiesOf(address)
    parameters.foreach { case (property, value) => property.set(properties, value) }
    PGProperty.APPLICATION_NAME.set(properties, applicationName)
    PGProperty.ASSUME_MIN_SERVER_VERSION.set(properties, "14")
    driver.connect(DriverParameters.url(address), properties)
  }

  private def propertiesOf(address: ServerAddress): Properties = {
    val properties = new Properties
    defaults.foreach { case (property, value) => property.set(properties, value) }
    DriverParameters.of(address).foreach { case (name, value) =>
      properties.setProperty(name, value)
    }
    address.user.foreach(PGProperty.USER.set(properties, _))
    address.password.foreach(PGProperty.PASSWORD.set(properties, _))
    properties
  }

  /**
   * Returns an address with the role and the password that a connection from this process has, also if
   * they come from the operating system and from a pgpass file.
   */
  private[connection] def withAccount(address: ServerAddress): ServerAddress = {
    val properties = propertiesOf(address)
    Option(System.getProperty("user.name")).foreach(properties.putIfAbsent(
      PGProperty.USER.getName,
      _
    ))
    // The driver does the same before it connects.
    val found =
      Option(Driver.parseURL(DriverParameters.url(address), properties)).getOrElse(properties)
    def value(property: PGProperty) = Option(property.getOrDefault(found))
    address.copy(user = value(PGProperty.USER), password = value(PGProperty.PASSWORD))
  }
}
