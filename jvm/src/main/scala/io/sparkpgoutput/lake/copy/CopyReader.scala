package io.sparkpgoutput.lake.copy

import java.sql.SQLException

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow

import org.postgresql.copy.CopyOut

import io.sparkpgoutput.lake.table.QuotedName
import io.sparkpgoutput.source.connection.{ConnectionError, Connections, ServerConnection}

/**
 * Reads one range of a table, in the snapshot of the copy. It locks the table first, and then looks
 * if the table still has the file that the snapshot saw. So it reads the right rows or fails, even
 * if the connection that holds the snapshot was lost.
 */
final private class CopyReader(settings: CopySettings, range: CopyRange)
    extends Iterator[InternalRow] with AutoCloseable {
  import CopyReader._
  import settings.{address, table}

  private val rows = new CopyRows(table, settings.options)
  private val connection: ServerConnection = ConnectionError.explaining(address) {
    CopySession.allRows(Connections.open(address, settings.applicationName))
  }
  private val copy: CopyOut = ConnectionError.explaining(address) {
    try start()
    catch {
      case error: Throwable =>
        connection.abort()
        throw error
    }
  }

  /** The row that comes next if it is read already; null at the end. */
  private var text: Array[Byte] = _
  private var isRead = false
  private var rowCount = 0L
  private var byteCount = 0L

  /** The rows and bytes of COPY that were returned. */
  def readRows: Long = rowCount
  def readBytes: Long = byteCount

  private def start(): CopyOut = {
    CopySession.join(connection, settings.snapshot, table.source.name, secondsToLock)
    CopySession.lock(connection, range.from, table.source.name)
    val file = connection
      .query("SELECT pg_relation_filenode(?::oid)::bigint", range.oid)(_.getLong(1))
    if (file != Seq(range.fileNode)) throw CopyError.interrupted(
      table.source.name,
      "it was truncated or rewritten meanwhile."
    )
    connection.copyOut(s"COPY ($query) TO STDOUT")
  }

  private def query: String = {
    val columns = table.source.columns.map(column => QuotedName(column.name)).mkString(", ")
    val conditions = range.condition ++ table.source.rowFilter.map(filter => s"($filter)")
    val where = if (conditions.isEmpty) "" else conditions.mkString(" WHERE ", " AND ", "")
    s"SELECT $columns FROM ${range.from}$where"
  }

  private def read(): Array[Byte] =
    try copy.readFromCopy()
    catch {
      case error: SQLException => throw ConnectionError.of(error, address)
    }

  override def hasNext: Boolean = {
    if (!isRead) {
      text = read()
      isRead = true
    }
    text != null
  }

  /** Returns the next row, which the one after it overwrites. */
  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException
    rowCount += 1
    byteCount += text.length
    isRead = false
    rows.row(text)
  }

  override def close(): Unit = connection.abort()
}

private object CopyReader {

  /**
   * The time that a task waits for its lock. A TRUNCATE that waits for the end of the copy holds up
   * the tasks that begin after it, and the copy waits for these tasks. So a task gives up after
   * this time. Spark tries the task again, and meanwhile everybody else waits for the table.
   */
  private def secondsToLock =
    if (Option(TaskContext.get()).forall(_.attemptNumber() == 0)) 10 else 1
}
