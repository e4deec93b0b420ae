package io.sparkpgoutput.lake.copy

import java.sql.SQLException
import java.util.Arrays

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter
import org.apache.spark.unsafe.Platform

import org.postgresql.copy.CopyOut

import io.sparkpgoutput.errors.PgOutputException
import io.sparkpgoutput.lake.catalog.{HashSalt, QuotedName, TableColumn, ValueHash}
import io.sparkpgoutput.protocol.{TextEncoding, TupleCells}
import io.sparkpgoutput.rows.CellReader
import io.sparkpgoutput.source.connection.{ConnectionError, Connections, ServerConnection}
import io.sparkpgoutput.types.ValueWriter

/**
 * Reads one range of a table, in the snapshot of the copy.
 *
 * @param holder
 *   the connection that holds the snapshot and the locks of the table. If there is none, the reader opens a connection
 *   of its own. It locks the table first, and then checks that the name still leads to the table, with the file that
 *   the snapshot saw. So it reads the right rows or fails, even if the connection that holds the snapshot was lost.
 */
final private class CopyReader(
    settings: CopySettings,
    range: CopyRange,
    holder: Option[ServerConnection] = None
) extends Iterator[InternalRow] with AutoCloseable {
  import CopyReader._
  import settings.source.{address, applicationName}
  import settings.table

  private val rows = new CopyRows(settings)
  private val connection: ServerConnection = holder.getOrElse(ConnectionError.explaining(address) {
    CopySession.allRows(Connections.open(address, applicationName))
  })
  private val copy: CopyOut = ConnectionError.explaining(address) {
    connection.orAbort {
      if (holder.isEmpty) join()
      connection.copyOut(s"COPY ($query) TO STDOUT")
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

  private def join(): Unit = {
    CopySession.join(connection, settings.snapshot, table.source.name, secondsToLock)
    CopySession.lock(connection, range.from, table.source.name)
    // The server finds the table of a name again after it has waited for a lock.
    val name = QuotedName(range.name)
    val found = connection.query(
      "SELECT to_regclass(?)::oid::bigint, pg_relation_filenode(to_regclass(?))::bigint",
      name,
      name
    )(row => (row.getLong(1), row.getLong(2)))
    if (found != Seq((range.oid, range.fileNode))) throw CopySession.interrupted(
      table.source.name,
      "it was truncated, rewritten or renamed during the copy."
    )
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

  /** Returns the next row. The row after it overwrites it. */
  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException
    rowCount += 1
    byteCount += text.length
    isRead = false
    rows.row(text)
  }

  override def close(): Unit = if (holder.isEmpty) connection.abort()
}

private object CopyReader {

  /**
   * The time that a task waits for its lock. A TRUNCATE that waits for the end of the copy delays the tasks
   * that begin after it, and the copy waits for these tasks. So a task gives up after this time. Then Spark
   * tries the task again. During this time, all other sessions wait for the table.
   */
  private def secondsToLock =
    if (Option(TaskContext.get()).forall(_.attemptNumber() == 0)) 10 else 1
}

/** Makes rows from what COPY writes, by the conversions that the changes have. Not thread-safe. */
final private class CopyRows(settings: CopySettings) {
  import settings.source.{hiding, options}
  import settings.table

  private val schema = table.schema
  private val line = new CopyLine(schema.length)
  private val writer = new UnsafeRowWriter(schema.length, CopyRows.FirstSize)
  private val readers: Array[CellReader] = {
    val writers = ValueWriter.all(writer, schema)
    Array.tabulate(schema.length) { index =>
      val field = schema(index)
      val pgType = table.types.byOid(table.source.columns(index).readType)
      val isKey = table.source.key.contains(field.name)
      val conversion = pgType.to(field.dataType, if (isKey) options.ofKey else options)
      new CellReader(field, pgType, conversion.get, writers(index))
    }
  }

  private val isChecked =
    table.source.columns.forall(column => TableColumn.isChecked(column.readType))
  private val isChar = table.source.columns.map(_.readType == TableColumn.Char).toArray
  private val isHashed = table.source.columns.map(_.isHashed).toArray
  private val hashed: HashedCell = hiding.salt.map(new HashedCell(_)).orNull

  /** Reads a row of COPY. The next row overwrites it. */
  def row(text: Array[Byte]): UnsafeRow = {
    val isValid = isChecked || TextEncoding.isAscii(text, 0, text.length) ||
      TextEncoding.isValidUtf8(text, 0, text.length)
    line.start(text)
    writer.reset()
    writer.zeroOutNullBytes()
    var column = 0
    while (column < readers.length) {
      val kind = line.goTo(column)
      if (!isValid && kind == 't' && !isHashed(column)) checkText(column)
      val cell = if (isHashed(column) && kind == 't') hashed.of(line) else line
      val invalid = readers(column).read(kind, cell)
      if (invalid != null) {
        val what = readers(column).describe(kind, cell, invalid)
        throw new PgOutputException(
          "PGOUTPUT_INVALID_VALUE.IN_COPY",
          "table" -> table.source.name,
          "problem" -> what,
          "column" -> schema(column).name
        )
      }
      column += 1
    }
    line.finish()
    writer.getRow
  }

  /**
   * Refuses a text that is not valid in UTF-8, as the decoder refuses it in a message. Rows of tables whose texts the
   * server has checked are not checked again.
   */
  private def checkText(column: Int): Unit = {
    val isValid = TextEncoding.isValidUtf8(line.bytes, line.from, line.to - line.from) ||
      isChar(column) && TextEncoding.isBareByte(line.bytes, line.from, line.to)
    if (!isValid) throw new PgOutputException(
      "PGOUTPUT_INVALID_VALUE.NOT_UTF8_IN_COPY",
      "table" -> table.source.name,
      "column" -> schema(column).name
    )
  }
}

private object CopyRows {
  final private val FirstSize = 256
}

/** A cell with the hash of another one. */
final private class HashedCell(salt: HashSalt) extends TupleCells {
  private val hash = new ValueHash(salt)

  def of(cell: TupleCells): HashedCell = {
    bytes = hash.of(cell.bytes, cell.from, cell.to)
    to = bytes.length
    this
  }

  override def columns: Int = 1
  override def goTo(column: Int): Int = 't'
}

/**
 * The cells of a row that COPY … TO STDOUT has written in its text format: the columns have tabs
 * between them, NULL is `\N`, and a backslash escapes some characters (`CopyAttributeOutText`).
 */
final class CopyLine(override val columns: Int) extends TupleCells {
  import CopyLine._

  private var line: Array[Byte] = Array.emptyByteArray

  /** The place of the line feed at the end of the row. */
  private var end = 0
  private var column = 0
  private var next = 0
  private var unescaped = new Array[Byte](FirstSize)

  /** Begins with a row, which ends with a line feed. */
  def start(row: Array[Byte]): Unit = {
    line = row
    end = row.length - 1
    column = 0
    next = 0
    if (end < 0 || row(end) != '\n') throw malformed("does not end with a line feed")
  }

  /** Checks that the row has no more columns than were read. */
  def finish(): Unit = if (columns > 0 && next != end + 1) throw malformed("has too many columns")

  override def goTo(wanted: Int): Int = {
    while (column < wanted) read()
    read()
  }

  private def read(): Int = {
    if (next > end) throw malformed(s"has $column columns")
    column += 1
    val row = line
    val start = next
    val at = cellEnd(row, start, end)
    if (at == end || row(at) == Tab) {
      bytes = row
      from = start
      to = at
      next = at + 1
      't'
    } else if (at == start && isNull(at)) {
      next = at + NullSize + 1
      'n'
    } else {
      unescape(start, at)
      't'
    }
  }

  /** Finds the next tab, backslash or the end of the row. It looks at eight bytes at once. */
  private def cellEnd(row: Array[Byte], start: Int, end: Int): Int = {
    var at = start
    while (at <= end - WordSize && !hasSpecial(word(row, at))) at += WordSize
    while (at < end && row(at) != Tab && row(at) != Backslash) at += 1
    at
  }

  private def word(row: Array[Byte], at: Int) =
    Platform.getLong(row, Platform.BYTE_ARRAY_OFFSET.toLong + at)

  private def hasSpecial(word: Long) = (zeros(word ^ Tabs) | zeros(word ^ Backslashes)) != 0

  /** Returns 0 if no byte is 0. */
  private def zeros(word: Long) = (word - Ones) & ~word & Highest

  private def isNull(at: Int) = at + 1 < end && line(at + 1) == 'N' &&
    (at + NullSize == end || line(at + NullSize) == Tab)

  /** Copies a cell without its escapes. The first one is at `firstEscape`. */
  private def unescape(start: Int, firstEscape: Int): Unit = {
    var at = firstEscape
    var size = firstEscape - start
    reserve(size)
    System.arraycopy(line, start, unescaped, 0, size)
    while (at < end && line(at) != Tab) {
      if (size == unescaped.length) reserve(size + 1)
      if (line(at) == Backslash) {
        at += 1
        if (at == end) throw malformed("ends with a backslash")
        unescaped(size) = value(line(at))
      } else unescaped(size) = line(at)
      size += 1
      at += 1
    }
    bytes = unescaped
    from = 0
    to = size
    next = at + 1
  }

  private def value(escaped: Byte): Byte = escaped.toChar match {
    case 'b' => '\b'
    case 'f' => '\f'
    case 'n' => '\n'
    case 'r' => '\r'
    case 't' => '\t'
    case 'v' => VerticalTab
    case _   => escaped
  }

  private def reserve(size: Int): Unit =
    if (size > unescaped.length) {
      // An escape makes a cell shorter, so no cell is longer than its row.
      val wanted = math.min(2L * size, math.max(size, line.length).toLong)
      unescaped = Arrays.copyOf(unescaped, wanted.toInt)
    }

  private def malformed(problem: String) =
    new IllegalStateException(s"A row of COPY with $columns columns $problem")
}

private object CopyLine {
  final private val Tab = '\t'
  final private val Backslash = '\\'
  final private val WordSize = 8
  final private val Ones = 0x0101010101010101L
  final private val Highest = 0x8080808080808080L
  final private val Tabs = Ones * Tab
  final private val Backslashes = Ones * Backslash
  final private val VerticalTab: Byte = 11
  final private val NullSize = 2
  final private val FirstSize = 256
}
