package io.sparkpgoutput.source.connection

import java.net.{InetAddress, Socket, SocketOption}
import java.sql.Connection
import java.util.Properties
import java.util.logging.{Level, Logger}
import javax.net.SocketFactory

import scala.jdk.CollectionConverters._
import scala.util.Using

import jdk.net.ExtendedSocketOptions.{TCP_KEEPCOUNT, TCP_KEEPIDLE, TCP_KEEPINTERVAL}
import org.postgresql.jdbcurlresolver.PgPassParser
import org.postgresql.util.HostSpec
import org.postgresql.{Driver, PGProperty}

import io.sparkpgoutput.errors.SourceException

/** Opens connections to a server with the pgjdbc that is in this JAR. */
object Connections {
  final private val ApplicationName = "spark-pgoutput"

  /** The defaults, which the parameters of the URL can replace. */
  private val defaults = Map(
    PGProperty.TCP_KEEP_ALIVE -> "true",
    PGProperty.SOCKET_FACTORY -> classOf[KeepAliveSockets].getName
  )

  private val replication = Map(
    PGProperty.REPLICATION -> "database",
    PGProperty.PREFER_QUERY_MODE -> "simple" // a walsender supports no other protocol
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
  def open(address: ServerAddress, applicationName: String = ApplicationName): ServerConnection =
    open(address, applicationName, Map.empty)(new ServerConnection(_))

  /**
   * Asks whether the server at a host is shutting down, on a connection of its own, which the server then refuses.
   * If the address had several hosts, the driver would go on to the next one and not report the refusal.
   */
  def isShuttingDown(address: ServerAddress, host: HostSpec, applicationName: String): Boolean =
    try Using.resource(open(address.only(host), applicationName))(_ => false)
    catch { case error: SourceException => error.getSqlState == SqlState.CannotConnectNow }

  /** Opens a connection for the replication protocol. No time limit applies to it either. */
  def openReplication(
      address: ServerAddress,
      applicationName: String = ApplicationName
  ): ReplicationConnection =
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
    val properties = propertiesOf(withAccount(address))
    parameters.foreach { case (property, value) => property.set(properties, value) }
    PGProperty.APPLICATION_NAME.set(properties, applicationName)
    PGProperty.ASSUME_MIN_SERVER_VERSION.set(properties, "14")
    val connected = driver.connect(DriverParameters.url(address), properties)
    new ServerConnection(connected).orAbort {
      val connection = made(connected)
      SessionSetup.run(connection)
      connection
    }
  }

  private def propertiesOf(address: ServerAddress): Properties = {
    val properties = new Properties
    defaults.foreach { case (property, value) => property.set(properties, value) }
    properties.putAll(DriverParameters.of(address).asJava)
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
    def values(property: PGProperty) = value(property).toSeq.flatMap(_.split(','))
    // The driver looks for a line with the whole list of hosts. A pgpass file has a line for each, as libpq wants it.
    def ofHosts = for {
      (host, port) <- values(PGProperty.PG_HOST).zip(values(PGProperty.PG_PORT))
      (database, user) <- value(PGProperty.PG_DBNAME).zip(value(PGProperty.USER))
      password <- Option(PgPassParser.getPassword(host, port, database, user))
    } yield password
    val password = value(PGProperty.PASSWORD).orElse(ofHosts.headOption)
    address.copy(user = value(PGProperty.USER), password = password)
  }
}

/**
 * Sets the parameters of a session that the role, the database, the server or the driver may have set in
 * another way: how the server writes values as text (pgjdbc sends the time zone of the JVM), and time limits,
 * which are meant for short transactions. A slot can wait for other transactions when it is made, and a copy
 * can take hours.
 */
private[connection] object SessionSetup {

  private[connection] val texts: Seq[(String, String)] = Seq(
    "client_encoding" -> "UTF8",
    "DateStyle" -> "ISO, MDY",
    "IntervalStyle" -> "postgres",
    "TimeZone" -> "UTC",
    "extra_float_digits" -> "3",
    "bytea_output" -> "hex",
    // A value of the type money has two digits after the point then (`cash_out` in `cash.c`).
    "lc_monetary" -> "C",
    // The names in values of types such as regclass then have their schemas.
    "search_path" -> "",
    "quote_all_identifiers" -> "off"
  )

  /** Not every version has each limit. */
  private val limits = Seq(
    "statement_timeout",
    "lock_timeout",
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
    "transaction_timeout"
  )

  /** `set_config` returns the value that the setting has then, as SHOW does. */
  private val Query =
    texts.map { case (name, value) => s"set_config('$name', '$value', false)" }.mkString(
      "SELECT ",
      ", ",
      ", (SELECT count(set_config(name, '0', false)) FROM pg_settings WHERE name IN " +
        limits.mkString("('", "', '", "'))")
    )

  /** Sets all parameters in one round trip, and checks those that decide the format of texts. */
  def run(connection: ServerConnection): Unit = {
    val now =
      connection.query(Query)(row => texts.indices.map(index => row.getString(index + 1))).head
    texts.zip(now).foreach { case ((name, value), found) =>
      if (found != value) throw new SourceException(
        "PGOUTPUT_CONNECTION.SETTING",
        "value" -> value,
        "setting" -> name,
        "found" -> found
      )
    }
  }
}

/**
 * Sockets that notice within two minutes that the other side is gone, if they have sent nothing since
 * then. By default, Linux needs more than two hours, and until then a read that has begun waits: the
 * driver's `socketTimeout` would also end a session in which nothing happens. If they have sent
 * something, Linux sends it again for about 15 minutes (`net.ipv4.tcp_retries2`).
 */
final class KeepAliveSockets extends SocketFactory {
  private val default = SocketFactory.getDefault

  /** The seconds of silence, the seconds between two probes, and the probes. */
  private val options: Map[SocketOption[Integer], Integer] =
    Map(TCP_KEEPIDLE -> 60, TCP_KEEPINTERVAL -> 10, TCP_KEEPCOUNT -> 6)

  override def createSocket(): Socket = {
    val socket = default.createSocket()
    options.foreach { case (option, value) =>
      if (socket.supportedOptions.contains(option)) socket.setOption(option, value)
    }
    socket
  }

  // The driver calls only the first method. The others are the methods of the platform.
  override def createSocket(host: String, port: Int): Socket = default.createSocket(host, port)
  override def createSocket(host: InetAddress, port: Int): Socket = default.createSocket(host, port)
  override def createSocket(host: String, port: Int, local: InetAddress, localPort: Int): Socket =
    default.createSocket(host, port, local, localPort)
  override def createSocket(
      host: InetAddress,
      port: Int,
      local: InetAddress,
      localPort: Int
  ): Socket = default.createSocket(host, port, local, localPort)
}
