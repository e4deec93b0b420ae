package io.sparkpgoutput.source.connection

import java.sql.{Connection, ResultSet}

import scala.collection.mutable
import scala.util.{Try, Using}

import org.postgresql.PGConnection
import org.postgresql.copy.CopyOut

/** A connection to a server. It runs SQL, one statement at a time. Not thread-safe. */
class ServerConnection(protected val connection: Connection) extends AutoCloseable {

  /** Runs a query and reads all of its rows. */
  def query[T](sql: String, parameters: Any*)(read: ResultSet => T): Seq[T] =
    Using.resource(connection.prepareStatement(sql)) { statement =>
      parameters.zipWithIndex.foreach { case (value, index) =>
        statement.setObject(index + 1, value)
      }
      Using.resource(statement.executeQuery()) { rows =>
        val found = mutable.ArrayBuffer.empty[T]
        while (rows.next()) found += read(rows)
        found.toSeq
      }
    }

  /** Runs a statement. */
  def execute(sql: String): Unit =
    Using.resource(connection.createStatement())(statement => statement.execute(sql): Unit)

  /** Runs queries that see the same snapshot of the server, also of its catalog. */
  def inSnapshot[T](queries: => T): T = {
    execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try queries
    finally Try(execute("ROLLBACK")): Unit
  }

  /** Starts to read the rows of a COPY … TO STDOUT. Until its end, the connection runs nothing else. */
  def copyOut(sql: String): CopyOut =
    connection.unwrap(classOf[PGConnection]).getCopyAPI.copyOut(sql)

  /** The major version of the server, such as 18. */
  def majorVersion: Int = query("SHOW server_version_num")(_.getInt(1)).head / 10000

  /** Ends the session that is a process of the server. */
  def terminate(pid: Int): Unit = query("SELECT pg_terminate_backend(?)", pid)(_ => ()): Unit

  /** The server's process of this connection. */
  def pid: Int = connection.unwrap(classOf[PGConnection]).getBackendPID

  /** Asks the server to cancel the statement that runs now. Any thread can call it. */
  def cancel(): Unit = connection.unwrap(classOf[PGConnection]).cancelQuery()

  /** Ends the connection without waiting for the server. */
  def abort(): Unit = connection.abort(_.run())

  override def close(): Unit = connection.close()
}
