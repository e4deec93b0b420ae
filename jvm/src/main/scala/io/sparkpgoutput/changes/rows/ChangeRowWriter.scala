package io.sparkpgoutput.changes.rows

import java.nio.charset.StandardCharsets

import scala.annotation.switch
import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter

import io.sparkpgoutput.changes.PositionedDecoder
import io.sparkpgoutput.changes.transactions.{KnownRelations, SchemaMessage, Transaction}
import io.sparkpgoutput.decode.FieldSelection
import io.sparkpgoutput.errors.PgOutputException
import io.sparkpgoutput.protocol.MessageType.Tag
import io.sparkpgoutput.protocol._
import io.sparkpgoutput.rows.RowSchema

/**
 * Writes the rows of changes. After [[start]], it is an iterator over the rows of one change. A row is
 * valid until the next call. Not thread-safe.
 */
final class ChangeRowWriter(format: ChangeFormat) extends Iterator[UnsafeRow] {
  import ChangeRowWriter._
  import ChangeSchema._

  private val tuples = new ChangeMessageDecoder(format.options.encoding)
  private val relationReader = new RelationDecoder(format.options.encoding)
  private val tables = mutable.LongMap.empty[Table]

  private val writer = new UnsafeRowWriter(format.rowType.length, FirstSize)

  /** The place of each field of [[ChangeSchema]] in the rows; -1 if it is not wanted. */
  private val ordinals: Array[Int] = ChangeSchema.schema.indices.map { field =>
    val index = format.requiredFields.indexOf(field)
    if (index < 0) -1 else format.requiredColumns.length + index
  }.toArray

  /** Whether the rows need the cells of the tuples. */
  private val needsTuple = format.requiredColumns.nonEmpty || ordinals(MISSING) >= 0

  /** For each change type, whether its rows are wanted. */
  private val keeps: Array[Boolean] = ChangeType.all.map(format.filter.keepsType).toArray

  private val tuple = new RowImage
  private var transaction: Transaction = _
  private var position = 0L

  /** The rows of the change that are not taken yet. */
  private val pending = mutable.ArrayDeque.empty[PendingRow]

  /**
   * Starts with the next change. It checks the message even if no rows are wanted.
   *
   * @param transaction
   *   the transaction of the change, which has no rows if the transaction has no commit
   */
  def start(
      known: KnownRelations,
      transaction: Transaction,
      position: Long,
      message: Array[Byte],
      context: Int
  ): Unit = {
    this.transaction = transaction
    this.position = position
    tuples.read(position, message, context)
    val commit = transaction.commit
    if (commit != null && !(commit.aborted.nonEmpty && commit.aborted.contains(tuples.xid))) {
      (message(0).toChar: @switch) match {
        case Tag.Insert => add(tableOfTuples(known), ChangeType.Insert, 1)
        case Tag.Update =>
          val found = tableOfTuples(known)
          if (has(ChangeMessageDecoder.Key) || has(ChangeMessageDecoder.Old))
            add(found, ChangeType.UpdatePreimage, 0)
          add(found, ChangeType.UpdatePostimage, 1)
        case Tag.Delete => add(tableOfTuples(known), ChangeType.Delete, 1)
        case Tag.Truncate =>
          tuples.relationIds.zipWithIndex.foreach { case (oid, index) =>
            add(table(known, oid), ChangeType.Truncate, index)
          }
      }
    }
  }

  override def hasNext: Boolean = pending.nonEmpty

  /** Returns the next row of the change. The next call overwrites it. */
  override def next(): UnsafeRow = {
    val row = pending.removeHead()
    writer.reset()
    writer.zeroOutNullBytes()
    if (row.changeType eq ChangeType.Truncate) row.table.writer.writeNulls()
    else if (needsTuple) {
      startTuple(row.table, row.changeType)
      row.table.writer.write(tuple, position)
    }
    writeFields(row.table, row.changeType, row.ordinal)
    writer.getRow
  }

  private def has(field: Int) = tuples.cells(field) != null

  /** The table of an Insert, Update or Delete. Its tuples must have as many columns. */
  private def tableOfTuples(known: KnownRelations): Table = {
    val found = table(known, tuples.relationId)
    val columns = found.relation.columns.length
    var field = ChangeMessageDecoder.Key
    while (field <= ChangeMessageDecoder.New) {
      val cells = tuples.cells(field)
      if (cells != null && cells.columns != columns) {
        throw new PgOutputException(
          "PGOUTPUT_SCHEMA_MISMATCH.RELATION",
          "place" -> s"position $position",
          "table" -> found.relation.name,
          "oid" -> found.relation.oid,
          "found" -> RowSchema.columns(cells.columns),
          "wanted" -> RowSchema.columns(columns)
        )
      }
      field += 1
    }
    found
  }

  private def add(table: Table, changeType: ChangeType, ordinal: Int): Unit =
    if (table.writer != null && keeps(changeType.index)) {
      pending.append(PendingRow(table, changeType, transaction.nextOrdinal + ordinal))
    }

  private def startTuple(table: Table, changeType: ChangeType): Unit = {
    val key = tuples.cells(ChangeMessageDecoder.Key)
    val old = if (key != null) key else tuples.cells(ChangeMessageDecoder.Old)
    val isKey = table.writer.isKey
    if ((changeType eq ChangeType.Insert) || (changeType eq ChangeType.UpdatePostimage)) {
      tuple.start(isKey, tuples.cells(ChangeMessageDecoder.New), false, old, key != null)
    } else tuple.start(isKey, old, key != null, null, false)
  }

  private def writeFields(table: Table, changeType: ChangeType, ordinal: Long): Unit = {
    val commit = transaction.commit
    bytes(TABLE, table.name)
    bytes(CHANGE_TYPE, changeType.nameBytes)
    long(COMMIT_VERSION, commit.lsn)
    long(COMMIT_TIMESTAMP, commit.timestamp)
    long(XID, transaction.xid)
    text(GID, commit.gid)
    text(ORIGIN, transaction.origin)
    long(ORDINAL, ordinal)
    long(POSITION, position)
    bytes(KEYS, table.keys)
    if (ordinals(MISSING) >= 0) {
      bytes(
        MISSING,
        if (changeType eq ChangeType.Truncate) NameArray.empty else table.writer.missing.names
      )
    }
  }

  private def bytes(field: Int, value: Array[Byte]): Unit =
    if (ordinals(field) >= 0) writer.write(ordinals(field), value)

  private def long(field: Int, value: Long): Unit =
    if (ordinals(field) >= 0) writer.write(ordinals(field), value)

  private def text(field: Int, value: String): Unit =
    if (ordinals(field) >= 0) {
      if (value == null) writer.setNullAt(ordinals(field))
      else writer.write(ordinals(field), value.getBytes(StandardCharsets.UTF_8))
    }

  /** The table as the last Relation message describes it. */
  private def table(known: KnownRelations, oid: Long): Table = {
    val sent = known.relation(transaction, oid)
    if (sent == null) throw new PgOutputException(
      "PGOUTPUT_UNKNOWN_RELATION",
      "position" -> position,
      "oid" -> oid
    )
    val last = tables.getOrNull(oid)
    if (last != null && (last.sent eq sent)) last
    else if (last != null && last.sent.saysSame(sent)) {
      last.sent = sent
      last
    } else {
      val made = make(sent, known)
      tables.update(oid, made)
      made
    }
  }

  private def make(sent: SchemaMessage, known: KnownRelations): Table = {
    val relation = relationReader.relation(sent)
    val isWanted = format.filter.keepsTable(relation.name)
    val types = format.types.withDomains(known.typeMessages.flatMap(relationReader.baseType(_)))
    val tableWriter =
      if (isWanted) TableWriter.of(relation, format.copy(types = types), writer, position)
      else null
    new Table(sent, relation, tableWriter)
  }
}

private object ChangeRowWriter {
  final private val FirstSize = 512

  final private case class PendingRow(table: Table, changeType: ChangeType, ordinal: Long)

  /**
   * @param sent the last one of the Relation messages that describe the table in the same way
   * @param writer null if no rows of the table are wanted
   */
  final private class Table(
      var sent: SchemaMessage,
      val relation: Relation,
      val writer: TableWriter
  ) {
    val name: Array[Byte] = relation.name.toString.getBytes(StandardCharsets.UTF_8)
    val keys: Array[Byte] = NameArray.of(relation.columns.filter(_.isKey).map(_.name))
  }
}

/** Decodes the messages with changes, and gives the cells of their tuples in UTF-8. Not thread-safe. */
final class ChangeMessageDecoder(encoding: TextEncoding) {
  import ChangeMessageDecoder._

  private val decoder = new PositionedDecoder(
    encoding,
    FieldSelection.messageFields((if (encoding.isUtf8) fields else fields ++ tuples): _*)
  )
  private var row: UnsafeRow = _
  private val sent = Array.fill(3)(new EncodedTuple)
  private val converted = Array.fill(3)(new DecodedTuple)

  /** Reads a whole message, so that a malformed message is an error whatever the query needs. */
  def read(position: Long, message: Array[Byte], context: Int): Unit =
    row = decoder.decode(position, message, context)

  def xid: Long = row.getLong(0)
  def relationId: Long = row.getLong(1)
  def relationIds: Array[Long] = row.getArray(2).toLongArray()

  /**
   * Returns the cells of a tuple, from the first one on, or null if there is no such tuple.
   *
   * @param field one of [[Key]], [[Old]] and [[New]]
   */
  def cells(field: Int): TupleCells =
    if (encoding.isUtf8) {
      if (decoder.cells(MessageSchema.KEY + field, sent(field))) sent(field) else null
    } else {
      val ordinal = fields.length + field
      if (row.isNullAt(ordinal)) null
      else {
        converted(field).start(row.getStruct(ordinal, TupleSchema.schema.length))
        converted(field)
      }
    }
}

object ChangeMessageDecoder {
  final val Key = 0
  final val Old = MessageSchema.OLD - MessageSchema.KEY
  final val New = MessageSchema.NEW - MessageSchema.KEY

  private val fields =
    Seq(MessageSchema.XID, MessageSchema.RELATION_ID, MessageSchema.RELATION_IDS)
  private val tuples = Seq(MessageSchema.KEY, MessageSchema.OLD, MessageSchema.NEW)
}

/**
 * The cells of one image of a row. If a TOASTed value was not sent, its cell comes from the old image.
 */
final class RowImage {
  private var isKey: Array[Boolean] = _
  private var sent: TupleCells = _
  private var sentIsKey = false
  private var old: TupleCells = _
  private var oldIsKey = false
  private var found: TupleCells = _

  /**
   * @param isKey for each column, whether it is part of the replica identity
   * @param sentIsKey true if only the columns of the replica identity were sent
   * @param old the old image; null if there is none
   * @param oldIsKey true if the old image has only the columns of the replica identity
   */
  def start(
      isKey: Array[Boolean],
      sent: TupleCells,
      sentIsKey: Boolean,
      old: TupleCells,
      oldIsKey: Boolean
  ): Unit = {
    this.isKey = isKey
    this.sent = sent
    this.sentIsKey = sentIsKey
    this.old = old
    this.oldIsKey = oldIsKey
  }

  /**
   * Moves to a column. Columns are visited in order. Returns the kind of the cell, which is `u` if the
   * message does not carry the value.
   */
  def goTo(column: Int): Int =
    if (sentIsKey && !isKey(column)) RowImage.Missing // n says that it was not sent
    else {
      found = sent
      val kind = sent.goTo(column)
      if (kind == RowImage.Missing && old != null && (!oldIsKey || isKey(column))) {
        found = old
        val before = old.goTo(column)
        // NULL is not TOASTed. A partition with another replica identity than its root has NULL in the columns that its
        // own identity lacks, because the server describes the old row by the identity of the root.
        if (before == 'n') RowImage.Missing else before
      } else kind
    }

  /** The cells of the tuple that has the current cell. */
  def cells: TupleCells = found
}

object RowImage {
  final val Missing = 'u'.toInt
}
