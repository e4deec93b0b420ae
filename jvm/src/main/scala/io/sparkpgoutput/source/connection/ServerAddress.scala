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

  /** The URL without its query part. */
  def shown: String = url.takeWhile(_ != '?')

  override def toString: String = shown
}
