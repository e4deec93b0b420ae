package io.sparkpgoutput.source.connection

/**
 * Where a server is, and who connects to it.
 *
 * The URL can have secrets in its query part, so no text of this class shows that part.
 *
 * @param url
 *   a URL of pgjdbc, such as `jdbc:postgresql://db.example.org:5432/shop?sslmode=verify-full`
 */
final case class ServerAddress(url: String, user: Option[String], password: Option[String]) {

  /** The URL without its query part. If the rest is no proper URL, it can have secrets too. */
  def shown: String = withoutParameters.getOrElse(s"${ServerAddress.Prefix}…")

  /** The URL without its query part, if it has the form that pgjdbc reads. */
  private[connection] def withoutParameters: Option[String] =
    Some(url.takeWhile(_ != '?')).filter(ServerAddress.Form.matches)

  /** The query part of the URL. */
  private[connection] def parameters: String = url.dropWhile(_ != '?').drop(1)

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

  /** Several hosts with their ports, and the database. There is no place for a user or a password. */
  private val Form = {
    val host = """(?:\[[^\[\]/@]*\]|[^\[\]:,/@]*)(?::\d{1,5})?"""
    s"""$Prefix(?:[^/@]*|//|//$host(?:,$host)*/[^/@]*)""".r
  }
}
