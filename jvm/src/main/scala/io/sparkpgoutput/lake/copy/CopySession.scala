package io.sparkpgoutput.lake.copy

import io.sparkpgoutput.source.connection.ServerConnection

/** The settings of the sessions of a copy, beside those that decide how values are written. */
private object CopySession {

  /** A role can have limits that are made for short transactions. Not every version has each. */
  private val limits = Seq(
    "statement_timeout",
    "lock_timeout",
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
    "transaction_timeout"
  )

  private val NoLimits =
    s"SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN " +
      limits.mkString("('", "', '", "')")

  /** Takes away all limits of time, and makes a policy an error in place of fewer rows. */
  def unlimited[T <: ServerConnection](connection: T): T =
    try {
      connection.query(NoLimits)(_ => ())
      connection.execute("SET row_security = off")
      connection
    } catch {
      case error: Throwable =>
        connection.abort()
        throw error
    }

  /**
   * Begins a transaction, whose rows are those of its snapshot. With CREATE_REPLICATION_SLOT, it has
   * to be read only too.
   */
  def begin(connection: ServerConnection): Unit =
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

  /**
   * Locks a table against TRUNCATE and what rewrites it, to the end of the transaction. LOCK TABLE
   * would need the right to read all columns.
   */
  def lock(connection: ServerConnection, from: String): Unit =
    connection.query(s"SELECT FROM $from LIMIT 0")(_ => ()): Unit
}
