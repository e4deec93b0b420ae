package io.sparkpgoutput.lake.batch

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.GenericInternalRow

import io.sparkpgoutput.changes.rows.{ChangeMessageDecoder, Relation, RowImage}
import io.sparkpgoutput.errors.SchemaMismatchException
import io.sparkpgoutput.lake.ApplyError
import io.sparkpgoutput.protocol.MessageType.Tag
import io.sparkpgoutput.protocol.TupleCells
import io.sparkpgoutput.rows.RowSchema

/**
 * Makes rows of the changes of one table. After [[change]], it has the rows of one change: two if an
 * update gives a row another key, else one. After [[truncate]], it has one if the table is kept.
 */
final private class TableRouter(table: RoutedTable) {
  import TableRouter._

  private val definitions = mutable.ArrayBuffer.empty[DefinedTable]

  /** The definition in force. */
  private var current: DefinedTable = _
  private var inserts = 0L
  private var updates = 0L
  private var deletes = 0L
  private var truncates = 0L
  private var moved = 0L
  private var truncated: Option[MessagePosition] = None
  private var lastCommit = 0L

  private val image = new RowImage
  private val oldKey = new KeyBytes
  private val newKey = new KeyBytes

  /** The change whose rows are not all taken: the kinds of its first and its second row, or 0. */
  private var message: Array[Byte] = _
  private var first = 0
  private var second = 0
  private var isWhole = false

  def mark: Long = table.mark
  def isKept: Boolean = table.isKept
  def isDefined: Boolean = current != null
  def hasNext: Boolean = first != 0

  def define(relation: Relation, message: Array[Byte], types: IndexedSeq[Array[Byte]]): Unit =
    if (current == null || !current.isSame(message, types)) {
      current = new DefinedTable(table, relation, message, types, definitions.length)
      definitions += current
    }

  def truncate(at: MessagePosition, time: Long): Unit = {
    truncates += 1
    truncated = Some(at)
    lastCommit = time
    if (isKept) {
      message = TableRouter.truncate(table.oid)
      first = ChangeKind.Truncate
    }
  }

  /**
   * Takes an Insert, Update or Delete message.
   *
   * @param decoder has read the message
   * @param lsn the LSN of the commit
   * @param time the time of the commit
   */
  def change(
      message: Array[Byte],
      decoder: ChangeMessageDecoder,
      position: Long,
      lsn: Long,
      time: Long
  ): Unit = {
    this.message = message
    lastCommit = time
    current.changes += 1
    first = 0
    second = 0
    isWhole = true
    if (isKept) keep(decoder, position) else route(decoder, position, lsn)
  }

  /** Takes the change as it is. */
  private def keep(decoder: ChangeMessageDecoder, position: Long): Unit = {
    tuples.foreach(cells(decoder, _, position)) // which checks them
    first = message(0).toChar match {
      case Tag.Insert => inserts += 1; ChangeKind.Insert
      case Tag.Delete => deletes += 1; ChangeKind.Delete
      case _          => updates += 1; ChangeKind.Update
    }
  }

  /** Finds the row that changes. */
  private def route(decoder: ChangeMessageDecoder, position: Long, lsn: Long): Unit = {
    val oldIsKey = cells(decoder, ChangeMessageDecoder.Key, position) != null
    val field = if (oldIsKey) ChangeMessageDecoder.Key else ChangeMessageDecoder.Old
    message(0).toChar match {
      case Tag.Insert =>
        inserts += 1
        readKey(newKey, cells(decoder, ChangeMessageDecoder.New, position), false, null, false)
        if (!isWhole && current.partialInsert.isEmpty) current.partialInsert = Some(lsn)
        first = ChangeKind.Insert
      case Tag.Delete =>
        deletes += 1
        readKey(newKey, cells(decoder, field, position), oldIsKey, null, false)
        isWhole = true
        first = ChangeKind.Delete
      case _ => update(decoder, field, oldIsKey, position)
    }
    if (current.missingKey.nonEmpty) first = 0
  }

  private def update(
      decoder: ChangeMessageDecoder,
      field: Int,
      oldIsKey: Boolean,
      position: Long
  ): Unit = {
    updates += 1
    current.updates += 1
    val old = cells(decoder, field, position)
    if (old != null) readKey(oldKey, old, oldIsKey, null, false)
    isWhole = current.isComplete
    readKey(
      newKey,
      cells(decoder, ChangeMessageDecoder.New, position),
      sentIsKey = false,
      cells(decoder, field, position),
      oldIsKey
    )
    if (old == null || oldKey.isSame(newKey)) {
      // Without a key, an update that leaves the row as it is does nothing.
      first = if (current.keyIsRow && old != null) 0 else ChangeKind.Update
    } else {
      first = ChangeKind.MovedOut
      second = ChangeKind.MovedIn
      if (!isWhole && !current.isFull) moved += 1
    }
  }

  /** Reads the key of a row image, and finds the columns whose values are not there. */
  private def readKey(
      key: KeyBytes,
      sent: TupleCells,
      sentIsKey: Boolean,
      old: TupleCells,
      oldIsKey: Boolean
  ): Unit = {
    key.clear()
    image.start(current.isIdentity, sent, sentIsKey, old, oldIsKey)
    var column = 0
    while (column < current.inKey.length) {
      val kind = image.goTo(column)
      if (kind == RowImage.Missing) {
        if (!sentIsKey) {
          isWhole = false
          current.unsent(column) = true
        }
        if (current.inKey(column)) throw ApplyError.keyNotSent(current.relation.name)
      } else if (current.inKey(column)) {
        val cells = image.cells
        if (kind == 'n') {
          if (sentIsKey) throw ApplyError.keyIsNull(current.relation.name)
          key.addNull()
        } else if (current.isNumber(column)) key.addNumber(cells.bytes, cells.from, cells.to)
        else key.add(cells.bytes, cells.from, cells.to)
      }
      column += 1
    }
  }

  /** The cells of a tuple from the first one on, or null. It must have as many as the table. */
  private def cells(decoder: ChangeMessageDecoder, field: Int, position: Long): TupleCells = {
    val found = decoder.cells(field)
    val columns = current.relation.columns.length
    if (found != null && found.columns != columns) {
      throw new SchemaMismatchException(
        s"message $position: a tuple of table ${current.relation.name} (oid ${table.oid}) has " +
          s"${RowSchema.columns(found.columns)}, its Relation message ${RowSchema.columns(columns)}."
      )
    }
    found
  }

  /** Writes the next row of the change, without its LSN and ordinal. */
  def write(row: GenericInternalRow): Unit = {
    val key = if (first == ChangeKind.MovedOut) oldKey else newKey
    row.update(ChangeFields.HASH, hash(key))
    row.update(ChangeFields.KEY, key.copy)
    row.update(ChangeFields.KIND, first)
    row.update(ChangeFields.WHOLE, isWhole)
    row.update(ChangeFields.DEFINITION, current.number)
    row.update(ChangeFields.MESSAGE, message)
    first = second
    second = 0
  }

  /** The number that puts changes together. */
  private def hash(key: KeyBytes): Long =
    if (isKept) { written += 1; written / InOrder }
    else if (current.hasKey) key.hash
    else {
      // Rows of tables without an identity are not put together, so they are spread.
      spread += Spread
      spread
    }
  private var spread = 0L
  private var written = 0L

  def statistics: Option[TableStatistics] =
    Option.when(inserts + updates + deletes + truncates > 0)(
      TableStatistics(
        table.oid,
        current.relation.name,
        definitions.map(_.report).toIndexedSeq,
        inserts,
        updates,
        deletes,
        truncates,
        truncated,
        moved,
        lastCommit
      )
    )
}

private object TableRouter {

  /** Spreads numbers that follow each other over all 64 bits (the golden ratio). */
  final private val Spread = 0x9e3779b97f4a7c15L

  /** How many changes of a table that is kept stay together, in order. */
  final private val InOrder = 1024

  private val tuples =
    Seq(ChangeMessageDecoder.Key, ChangeMessageDecoder.Old, ChangeMessageDecoder.New)

  /** Truncate of one table: Int32 number of tables; Int8 options; Int32 oid of the table. */
  private def truncate(oid: Long): Array[Byte] = java.nio.ByteBuffer
    .allocate(1 + 4 + 1 + 4).put(Tag.Truncate.toByte).putInt(1).put(0.toByte)
    .putInt(oid.toInt).array
}
