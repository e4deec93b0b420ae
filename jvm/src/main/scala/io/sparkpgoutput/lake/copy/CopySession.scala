package io.sparkpgoutput.lake.copy

import java.sql.SQLException

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.lake.table.TableError
import io.sparkpgoutput.source.connection.ServerConnection

/** The settings of the sessions of a copy, beside those that decide how values are written. */
private object CopySession {

  /** Makes a row-level policy an error, because it would hide rows. */
  def allRows[T <: ServerConnection](connection: T): T =
    try {
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
   * Begins a transaction with the snapshot of another one.
   *
   * @param seconds how long it waits for a lock
   * @throws LakeException if the other transaction has ended
   */
  def join(connection: ServerConnection, snapshot: String, table: TableName, seconds: Int): Unit = {
    limitWaits(connection, seconds)
    begin(connection)
    try connection.execute(s"SET TRANSACTION SNAPSHOT '$snapshot'")
    catch {
      case error: SQLException if LostSnapshot(error.getSQLState) =>
        throw CopyError.interrupted(table, "the connection that holds its snapshot has ended.")
    }
  }

  /** Lets a connection wait for a lock for some seconds. */
  def limitWaits(connection: ServerConnection, seconds: Int): Unit =
    connection.execute(s"SET lock_timeout = '$seconds s'")

  /** Returns what [[join]] takes. */
  def exportSnapshot(connection: ServerConnection): String =
    connection.query("SELECT pg_export_snapshot()")(_.getString(1)).head

  /**
   * Locks a table until the end of the transaction, so that nobody can truncate or rewrite it. LOCK
   * TABLE would need the right to read all columns.
   *
   * @throws LakeException
   *   if the wait for the lock has a limit, and takes longer, or if the table was dropped or
   *   renamed
   */
  def lock(connection: ServerConnection, from: String, table: TableName): Unit =
    try givingWay(table)(connection.query(s"SELECT FROM $from LIMIT 0")(_ => ())): Unit
    catch {
      case error: SQLException if isMissing(error.getSQLState) =>
        throw TableError.changed(table, s"The server has no $from any more.")
    }

  /** @throws LakeException if the wait for a lock takes longer than its limit */
  def givingWay[T](table: TableName)(body: => T): T =
    try body
    catch {
      case error: SQLException if error.getSQLState == LockNotAvailable =>
        throw CopyError.interrupted(
          table,
          "another session waits for a lock of the table, for example to truncate it, and the copy " +
            "gives way to it."
        )
    }

  private val LockNotAvailable = "55P03"

  /** An undefined table or schema. */
  private val isMissing = Set("42P01", "3F000")

  /** What the server says of a snapshot whose transaction has ended (`ImportSnapshot`). */
  private val LostSnapshot = Set("22023", "42704", "55000")
}
