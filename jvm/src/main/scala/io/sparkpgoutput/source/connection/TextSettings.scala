package io.sparkpgoutput.source.connection

/**
 * The settings of a session that decide how the server writes values as text. A role, a database and
 * the driver can have others: pgjdbc sends the time zone of the JVM.
 */
private[connection] object TextSettings {

  private[connection] val values: Seq[(String, String)] = Seq(
    "client_encoding" -> "UTF8",
    "DateStyle" -> "ISO, MDY",
    "IntervalStyle" -> "postgres",
    "TimeZone" -> "UTC",
    "extra_float_digits" -> "3",
    "bytea_output" -> "hex",
    // The names in values of types such as regclass then have their schemas.
    "search_path" -> "",
    "quote_all_identifiers" -> "off"
  )

  /** `set_config` returns the value that the setting has then, as SHOW does. */
  private val Query =
    values.map { case (name, value) => s"set_config('$name', '$value', false)" }
      .mkString("SELECT ", ", ", "")

  /** Sets all of them, and checks that the server has taken them. */
  def set(connection: ServerConnection): Unit = {
    val now =
      connection.query(Query)(row => values.indices.map(index => row.getString(index + 1))).head
    values.zip(now).foreach { case ((name, value), found) =>
      if (found != value) throw ConnectionError.setting(name, value, found)
    }
  }
}
