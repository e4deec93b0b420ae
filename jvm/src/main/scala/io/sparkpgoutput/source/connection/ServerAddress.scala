package io.sparkpgoutput.source.connection

import java.net.{URLDecoder, URLEncoder}
import java.nio.charset.StandardCharsets.UTF_8
import java.util.logging.{Level, Logger}

import scala.jdk.CollectionConverters._
import scala.util.Try

import org.postgresql.PGProperty._
import org.postgresql.jdbcurlresolver.PgServiceConfParser
import org.postgresql.util.{HostSpec, PGPropertyUtil}
import org.postgresql.{Driver, PGProperty}

import io.sparkpgoutput.errors.SourceException

/**
 * Where a server is, and who connects to it.
 *
 * The URL can have secrets in its query part, so no text of this class shows that part.
 *
 * @param url
 *   a URL of pgjdbc, such as `jdbc:postgresql://db.example.org:5432/shop?sslmode=verify-full`
 */
final case class ServerAddress(url: String, user: Option[String], password: Option[String]) {

  /** The URL without its query part. If the rest is not a proper URL, it can have secrets too. */
  def shown: String = withoutParameters.getOrElse(s"${ServerAddress.Prefix}…")

  /** The URL without its query part, if it has the form that pgjdbc reads. */
  private[connection] def withoutParameters: Option[String] =
    Some(url.takeWhile(_ != '?')).filter(ServerAddress.Form.matches)

  /** The query part of the URL. */
  private[connection] def parameters: String = url.dropWhile(_ != '?').drop(1)

  /** The address of one of its hosts, whichever role the server there has. */
  private[connection] def only(host: HostSpec): ServerAddress = {
    val chosen = Map(
      PG_HOST -> host.getHost,
      PG_PORT -> host.getPort.toString,
      TARGET_SERVER_TYPE -> "any",
      LOAD_BALANCE_HOSTS -> "false"
    ).map { case (property, value) => s"${property.getName}=${URLEncoder.encode(value, UTF_8)}" }
    // Of two parameters with the same name, the last one counts.
    val all = parameters.split('&').filter(_.nonEmpty) ++ chosen
    copy(url = all.mkString(s"${url.takeWhile(_ != '?')}?", "&", ""))
  }

  /** Checks what the driver would not check, or not before it connects. */
  def check(): Unit = {
    DriverParameters.url(this)
    DriverParameters.of(this)
  }

  /**
   * The address for the tasks of this driver. They can run on other machines and as another user, so it
   * has the role and the password that this process finds, for example in its pgpass file.
   */
  def forTasks: ServerAddress = Connections.withAccount(this)

  override def toString: String = shown
}

object ServerAddress {
  private[connection] val Prefix = "jdbc:postgresql:"

  /**
   * Several hosts with their ports, and the database. There is no place for a user or a password, also not after a
   * database, as in `/shop&password=…` and `/shop;password=…`.
   */
  private val Form = {
    val host = """(?:\[[^\[\]/@]*\]|[^\[\]:,/@]*)(?::\d{1,5})?"""
    val database = "[^/@&;=]*"
    s"""$Prefix(?:$database|//|//$host(?:,$host)*/$database)""".r
  }
}

/**
 * The parameters of pgjdbc in a URL.
 *
 * The parameters that say how to reach the server and how to log in have their usual effect. The
 * parameters that say how statements run have no effect, so that users can take the URL of another
 * program.
 */
private[connection] object DriverParameters {

  private[connection] val passedOn: Set[PGProperty] = Set(
    PG_HOST,
    PG_PORT,
    PG_DBNAME,
    USER,
    PASSWORD,
    OPTIONS,
    PROTOCOL_VERSION,
    // Several hosts
    TARGET_SERVER_TYPE,
    LOAD_BALANCE_HOSTS,
    HOST_RECHECK_SECONDS,
    // TLS
    SSL,
    SSL_MODE,
    SSL_NEGOTIATION,
    SSL_CERT,
    SSL_KEY,
    SSL_PASSWORD,
    SSL_ROOT_CERT,
    SSL_FACTORY_ARG,
    SSL_RESPONSE_TIMEOUT,
    PEM_KEY_ALGORITHM,
    CHANNEL_BINDING,
    // Authentication
    REQUIRE_AUTH,
    SCRAM_MAX_ITERATIONS,
    GSS_ENC_MODE,
    GSS_LIB,
    GSS_RESPONSE_TIMEOUT,
    GSS_USE_DEFAULT_CREDS,
    JAAS_APPLICATION_NAME,
    JAAS_LOGIN,
    KERBEROS_SERVER_NAME,
    SSPI_SERVICE_CLASS,
    USE_SPNEGO,
    // The socket
    CONNECT_TIMEOUT,
    LOGIN_TIMEOUT,
    CANCEL_SIGNAL_TIMEOUT,
    LOCAL_SOCKET_ADDRESS,
    SOCKET_FACTORY_ARG,
    CONNECT_EXECUTOR_ARG,
    TCP_KEEP_ALIVE,
    TCP_NO_DELAY,
    SEND_BUFFER_SIZE,
    RECEIVE_BUFFER_SIZE,
    MAX_SEND_BUFFER_SIZE
  )

  /** The parameters that name a class. */
  private[connection] val classes: Set[PGProperty] = Set(
    AUTHENTICATION_PLUGIN_CLASS_NAME,
    CONNECT_EXECUTOR,
    SOCKET_FACTORY,
    SSL_FACTORY,
    SSL_HOSTNAME_VERIFIER,
    SSL_PASSWORD_CALLBACK,
    XML_FACTORY_FACTORY
  )

  /** The package of pgjdbc's classes in this JAR. */
  private val ownPackage = classOf[Driver].getPackageName

  /** The package of pgjdbc's classes for a user. The build would change it if it were a constant. */
  private val knownPackage = Seq("org", "postgresql").mkString(".")

  /** The parts of a URL that its parameters can replace. */
  private val endpoint = Set(PG_HOST, PG_PORT, PG_DBNAME).map(_.getName)

  /**
   * The URL without the other parameters. The driver lets parameters of the URL win over our own, and
   * logs the whole URL if it cannot read it.
   */
  def url(address: ServerAddress): String = {
    val replaced = inUrl(address).collect {
      case (name, value) if endpoint(name) => s"$name=${URLEncoder.encode(value, UTF_8)}"
    }
    val base =
      address.withoutParameters.getOrElse(throw new SourceException("PGOUTPUT_SOURCE_OPTION.URL"))
    if (replaced.isEmpty) base else replaced.mkString(s"$base?", "&", "")
  }

  /** The parameters of the URL, and those of the service that it names. */
  def of(address: ServerAddress): Map[String, String] = {
    val parameters = inUrl(address).toMap
    val all = parameters.get(SERVICE.getName).fold(Map.empty[String, String])(service) ++ parameters
    all.flatMap { case (name, value) =>
      val property = known(name)
      if (passedOn(property)) Some(name -> value)
      else if (classes(property)) Some(name -> relocated(name, value))
      else None
    }
  }

  /** Replaces the values of the URL's parameters in a text, which the driver can quote in its errors. */
  def hidden(address: ServerAddress, text: String): String =
    named(address).flatMap { case (name, value) =>
      val choices = Option(PGProperty.forName(name)).flatMap(known => Option(known.getChoices))
      (Seq(value) ++ decoded(value))
        .filter(_.length >= ShortestSecret)
        .filterNot(choices.toSeq.flatten.contains)
        .map(name -> _)
    }
      .sortBy { case (_, value) => -value.length }
      .foldLeft(text) { case (left, (name, value)) => left.replace(value, s"<$name>") }

  /** A shorter value occurs in a text by chance. */
  private val ShortestSecret = 3

  private def named(address: ServerAddress): Seq[(String, String)] =
    address.parameters.split('&').toSeq.filter(_.nonEmpty).map { parameter =>
      val (name, value) = parameter.span(_ != '=')
      PGPropertyUtil.translatePGServiceToPGProperty(name) -> value.drop(1)
    }

  private def inUrl(address: ServerAddress): Seq[(String, String)] =
    named(address).map { case (name, value) =>
      name -> decoded(value).getOrElse(
        throw new SourceException("PGOUTPUT_SOURCE_OPTION.URL_ENCODING", "parameter" -> name)
      )
    }

  private def decoded(value: String): Option[String] = Try(URLDecoder.decode(value, UTF_8)).toOption

  /** It quotes a line that pgjdbc does not know, which can be a misspelt password. */
  private val log = Logger.getLogger(classOf[PgServiceConfParser].getName)
  log.setLevel(Level.OFF)

  private def service(name: String): Map[String, String] =
    Option(PgServiceConfParser.getServiceProperties(name))
      .getOrElse(throw new SourceException("PGOUTPUT_SOURCE_OPTION.URL_SERVICE"))
      .asScala
      .toMap

  /** pgjdbc ignores names that it does not know, and a misspelt sslmode would turn off TLS. */
  private def known(name: String): PGProperty =
    Option(PGProperty.forName(name)).getOrElse {
      val meant = PGProperty.values.map(_.getName).find(_.equalsIgnoreCase(name.replace("_", "")))
      throw new SourceException(
        "PGOUTPUT_SOURCE_OPTION.URL_PARAMETER",
        "parameter" -> name,
        "remedy" -> meant.fold("Remove it.")(meant => s"Write $meant.")
      )
    }

  private def relocated(name: String, value: String): String =
    if (value.startsWith(s"$knownPackage.")) ownPackage + value.drop(knownPackage.length)
    else
      throw new SourceException(
        "PGOUTPUT_SOURCE_OPTION.URL_CLASS",
        "parameter" -> name,
        "package" -> knownPackage
      )
}
