package io.sparkpgoutput.source.connection

/** The time limits that a role, a database or a server can have for short transactions. */
private[sparkpgoutput] object TimeLimits {
  private val settings = Seq(
    "statement_timeout",
    "lock_timeout",
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
    "transaction_timeout"
  )

  /** Not every version has each setting. */
  private val NoLimits =
    s"SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN " +
      settings.mkString("('", "', '", "')")

  /** Removes all time limits of a session. */
  def remove(connection: ServerConnection): Unit = connection.query(NoLimits)(_ => ()): Unit
}
