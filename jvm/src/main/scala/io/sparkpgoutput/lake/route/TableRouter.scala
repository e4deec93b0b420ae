package io.sparkpgoutput.lake.route

import java.util.Arrays

import scala.annotation.switch
import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, XXH64}
import org.apache.spark.unsafe.Platform

import io.sparkpgoutput.changes.rows.{ChangeMessageDecoder, Relation, RowImage}
import io.sparkpgoutput.errors.PgOutputException
import io.sparkpgoutput.lake.catalog.{QuotedName, ReplicaIdentity, TableError}
import io.sparkpgoutput.protocol.MessageType.Tag
import io.sparkpgoutput.protocol.{TruncateMessage, TupleCells}
import io.sparkpgoutput.rows.RowSchema

/**
 * Makes rows from the changes of one table. After [[change]], it has the rows of one change: two if an
 * update gives a row another key, none if the change has no effect, else one. After [[truncate]], it has
 * one row if all changes are kept ([[RoutedTable.isHistory]]).
 *
 * @param decoder has read the message whose change is routed
 */
final private class TableRouter(table: RoutedTable, decoder: ChangeMessageDecoder) {
  import TableRouter._

  private val definitions = mutable.ArrayBuffer.empty[DefinedTable]

  /** The definition in force. */
  private var current: DefinedTable = _
  private var inserts = 0L
  private var updates = 0L
  private var deletes = 0L
  private var truncations = Vector.empty[Truncation]
  private var keyChanges = 0L
  private var moved = 0L
  private var lastCommit = 0L

  private val image = new RowImage
  private val oldKey = new KeyBytes
  private val newKey = new KeyBytes

  /**
   * The message that is being routed, and those of its effects that are not written yet: two if an UPDATE changes the
   * key. 0 means none.
   */
  private var message: Array[Byte] = _
  private var first = 0
  private var second = 0
  private var isWhole = false

  def hasNext: Boolean = first != 0

  def define(relation: Relation, message: Array[Byte], types: IndexedSeq[Array[Byte]]): Unit =
    if (current == null || !current.isSame(message, types)) {
      current = new DefinedTable(table, relation, message, types, definitions.length)
      definitions += current
    }

  def truncate(at: MessagePosition, time: Long): Unit = {
    truncations :+= Truncation(at, time)
    lastCommit = time
    if (table.isHistory) {
      message = TruncateMessage.of(table.oid)
      first = RowEffect.Truncate
    }
  }

  /**
   * Takes an Insert, Update or Delete message.
   *
   * @param lsn the LSN of the commit
   * @param time the time of the commit
   */
  def change(message: Array[Byte], position: Long, lsn: Long, time: Long): Unit = {
    this.message = message
    lastCommit = time
    current.changes += 1
    first = 0
    second = 0
    isWhole = true
    if (table.isHistory) keep(position) else route(position, lsn)
  }

  /** Takes the change as it is. */
  private def keep(position: Long): Unit = {
    tuples.foreach(cells(_, position)) // checks the number of columns
    first = message(0).toChar match {
      case Tag.Insert => inserts += 1; RowEffect.Insert
      case Tag.Delete => deletes += 1; RowEffect.Delete
      case _          => updates += 1; RowEffect.Update
    }
  }

  /** Finds the row that changes. */
  private def route(position: Long, lsn: Long): Unit = {
    val oldIsKey = cells(ChangeMessageDecoder.Key, position) != null
    val field = if (oldIsKey) ChangeMessageDecoder.Key else ChangeMessageDecoder.Old
    message(0).toChar match {
      case Tag.Insert =>
        inserts += 1
        readKey(newKey, cells(ChangeMessageDecoder.New, position), false, null, false)
        if (!isWhole && current.partialInsert.isEmpty) current.partialInsert = Some(lsn)
        first = RowEffect.Insert
      case Tag.Delete =>
        deletes += 1
        readKey(newKey, cells(field, position), oldIsKey, null, false)
        isWhole = true
        first = RowEffect.Delete
      case _ => update(field, oldIsKey, position)
    }
    if (current.missingKey.nonEmpty) first = 0
  }

  private def update(field: Int, oldIsKey: Boolean, position: Long): Unit = {
    updates += 1
    current.updates += 1
    val old = cells(field, position)
    if (old != null) readKey(oldKey, old, oldIsKey, null, false)
    isWhole = current.isComplete
    val sent = cells(ChangeMessageDecoder.New, position)
    readKey(newKey, sent, false, cells(field, position), oldIsKey)
    if (old == null || oldKey.isSame(newKey)) {
      // Without a key, an update that leaves the row as it is does nothing.
      first = if (current.keyIsRow && old != null) 0 else RowEffect.Update
    } else {
      first = RowEffect.MovedOut
      second = RowEffect.MovedIn
      keyChanges += 1
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
        if (current.inKey(column)) throw TableError.keyNotSent(current.relation.name)
      } else if (current.inKey(column)) {
        val cells = image.cells
        if (kind == 'n') {
          if (sentIsKey) throw new PgOutputException(
            "PGOUTPUT_MALFORMED_MESSAGE.KEY_IS_NULL",
            "table" -> current.relation.name,
            "sql" -> QuotedName(current.relation.name)
          )
          key.addNull()
        } else if (current.isNumber(column)) key.addNumber(cells.bytes, cells.from, cells.to)
        else key.add(cells.bytes, cells.from, cells.to)
      }
      column += 1
    }
  }

  /** Returns the cells of a tuple, one for each column of the table; null if the message has no such tuple. */
  private def cells(field: Int, position: Long): TupleCells = {
    val found = decoder.cells(field)
    val columns = current.relation.columns.length
    if (found != null && found.columns != columns) {
      throw new PgOutputException(
        "PGOUTPUT_SCHEMA_MISMATCH.RELATION",
        "place" -> s"message $position",
        "table" -> current.relation.name,
        "oid" -> table.oid,
        "found" -> RowSchema.columns(found.columns),
        "wanted" -> RowSchema.columns(columns)
      )
    }
    found
  }

  /** Writes the next row of the change, without its LSN and ordinal. */
  def write(row: GenericInternalRow): Unit = {
    val key = if (first == RowEffect.MovedOut) oldKey else newKey
    row.update(ChangeFields.HASH, hash(key))
    row.update(ChangeFields.KEY, key.copy)
    row.update(ChangeFields.KIND, first)
    row.update(ChangeFields.WHOLE, isWhole)
    row.update(ChangeFields.DEFINITION, current.number)
    row.update(ChangeFields.MESSAGE, message)
    first = second
    second = 0
  }

  /** The number by which changes are partitioned. All changes of a row have the same number. */
  private def hash(key: KeyBytes): Long =
    if (current.hasKey && !table.isHistory) key.hash
    else {
      counter += 1
      // Without a replica identity, there are only inserts, which can be on any executor.
      if (table.isHistory) counter / InOrder else counter * Spread
    }
  private var counter = 0L

  def summary: Option[CutSummary] =
    Option.when(inserts + updates + deletes > 0 || truncations.nonEmpty)(
      CutSummary(
        current.relation.name,
        definitions.map(_.report).toIndexedSeq,
        inserts,
        updates,
        deletes,
        truncations,
        keyChanges,
        moved,
        lastCommit
      )
    )
}

private object TableRouter {

  /** Spreads numbers that follow each other over all 64 bits (the golden ratio). */
  final private val Spread = 0x9e3779b97f4a7c15L

  /** How many changes stay together, in order, if all changes of a table are kept. */
  final private val InOrder = 1024

  private val tuples =
    Seq(ChangeMessageDecoder.Key, ChangeMessageDecoder.Old, ChangeMessageDecoder.New)
}

/**
 * A table by one Relation message.
 *
 * @param message the Relation message
 * @param types the Type messages of its columns
 * @param number the number of the definition in the cut
 */
final private class DefinedTable(
    table: RoutedTable,
    val relation: Relation,
    message: Array[Byte],
    types: IndexedSeq[Array[Byte]],
    val number: Int
) {
  private val names = relation.columns.map(column => table.nameOf(column.name))
  val isFull: Boolean = relation.identity == ReplicaIdentity.Full.code

  /** True if the target has no column that the definition does not have. */
  val isComplete: Boolean = table.columns.forall(names.contains)

  /** True if a row is identified by all of its values. */
  val keyIsRow: Boolean = isFull && table.key.isEmpty
  val isIdentity: Array[Boolean] = relation.columns.map(_.isKey).toArray
  val inKey: Array[Boolean] =
    if (isFull && !keyIsRow) names.map(table.key).toArray else isIdentity
  val hasKey: Boolean = inKey.contains(true)
  val isNumber: Array[Boolean] =
    names.map(name => !keyIsRow && table.numbers(name)).toArray
  val missingKey: Seq[String] = if (isFull) (table.key -- names).toSeq else Nil

  val unsent: Array[Boolean] = new Array[Boolean](names.length)
  var changes = 0L
  var updates = 0L

  /** The LSN of the first commit with an insert that did not send all values. */
  var partialInsert: Option[Long] = None

  def isSame(otherMessage: Array[Byte], otherTypes: IndexedSeq[Array[Byte]]): Boolean =
    Arrays.equals(message, otherMessage) &&
      types.corresponds(otherTypes)((one, other) => Arrays.equals(one, other))

  def report: CutDefinition =
    CutDefinition(relation, types, changes, updates, unsent.toIndexedSeq, partialInsert, missingKey)
}

/**
 * The key of a row as bytes: the text of each column with its length before it. Keys are equal if
 * their bytes are. Not thread-safe.
 */
final class KeyBytes {
  private var bytes = new Array[Byte](64)
  private var size = 0

  def clear(): Unit = size = 0

  def addNull(): Unit = length(-1)

  def add(source: Array[Byte], from: Int, to: Int): Unit = {
    length(to - from)
    reserve(to - from)
    append(source, from, to)
  }

  private def append(source: Array[Byte], from: Int, to: Int): Unit = {
    System.arraycopy(source, from, bytes, size, to - from)
    size += to - from
  }

  /**
   * Adds the text of a number, or of an array, a range or a composite value of numbers, so that equal numbers
   * have equal bytes: numeric has `1.0` and `1.00`, float has `0` and `-0`.
   */
  def addNumber(source: Array[Byte], from: Int, to: Int): Unit = {
    val begin = size
    length(0) // which is known at the end
    reserve(to - from)
    var at = from
    while (at < to) {
      var end = at
      while (end < to && !KeyBytes.isPunctuation(source(end))) end += 1
      val isZero = end - at == 2 && source(at) == '-' && source(at + 1) == '0'
      append(source, if (isZero) at + 1 else at, KeyBytes.endOfNumber(source, at, end))
      if (end < to) append(source, end, end + 1)
      at = end + 1
    }
    Platform.putInt(bytes, Platform.BYTE_ARRAY_OFFSET.toLong + begin, size - begin - 4)
  }

  def isSame(other: KeyBytes): Boolean =
    Arrays.equals(bytes, 0, size, other.bytes, 0, other.size)

  def copy: Array[Byte] = bytes.take(size)

  def hash: Long = XXH64.hashUnsafeBytes(bytes, Platform.BYTE_ARRAY_OFFSET.toLong, size, 42L)

  private def length(value: Int): Unit = {
    reserve(4)
    Platform.putInt(bytes, Platform.BYTE_ARRAY_OFFSET.toLong + size, value)
    size += 4
  }

  private def reserve(more: Int): Unit =
    if (size + more > bytes.length)
      bytes = Arrays.copyOf(bytes, math.max(2 * bytes.length, size + more))
}

private object KeyBytes {

  /** Returns whether a byte separates nested numbers. */
  private def isPunctuation(byte: Byte): Boolean = (byte.toChar: @switch) match {
    case '{' | '}' | '[' | ']' | '(' | ')' | ',' | ':' | '=' => true
    case _                                                   => false
  }

  /** The end of a number without the zeros that end its fraction. A number with an exponent has no such zeros. */
  private def endOfNumber(source: Array[Byte], from: Int, to: Int): Int = {
    var hasPoint = false
    var hasExponent = false
    var at = from
    while (at < to) {
      hasPoint |= source(at) == '.'
      hasExponent |= source(at) == 'e'
      at += 1
    }
    var end = to
    if (hasPoint && !hasExponent) {
      while (source(end - 1) == '0') end -= 1
      if (source(end - 1) == '.') end -= 1
    }
    end
  }
}
