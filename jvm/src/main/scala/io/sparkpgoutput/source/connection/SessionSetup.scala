package io.sparkpgoutput.source.connection

/**
 * Sets what a role, a database, a server and the driver can set otherwise: how the server writes values
 * as text (pgjdbc sends the time zone of the JVM), and time limits that are meant for short
 * transactions. A slot can wait for other transactions when it is made, and a copy can take hours.
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

  /** Sets all of them in one round trip, and checks that the server has taken those of texts. */
  def run(connection: ServerConnection): Unit = {
    val now =
      connection.query(Query)(row => texts.indices.map(index => row.getString(index + 1))).head
    texts.zip(now).foreach { case ((name, value), found) =>
      if (found != value) throw ConnectionError.setting(name, value, found)
    }
  }
}
