package io.sparkpgoutput.changes.rows

import java.nio.charset.StandardCharsets
import java.util.Arrays

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter

import io.sparkpgoutput.changes.ChangesError
import io.sparkpgoutput.changes.rows.ChangeSchema._
import io.sparkpgoutput.changes.transactions.{KnownRelations, SchemaMessage, Transaction}
import io.sparkpgoutput.errors.SchemaMismatchException
import io.sparkpgoutput.rows.RowSchema

/** The rows of changes whose transactions are known to be committed. Not thread-safe. */
final class ChangeRowWriter(format: ChangeFormat) extends Iterator[UnsafeRow] {
  import ChangeRowWriter._

  private val tuples = new ChangeMessageDecoder(format.options.encoding)
  private val relationReader = new RelationDecoder(format.options.encoding)
  private val tables = mutable.LongMap.empty[Table]

  private val writer = new UnsafeRowWriter(format.rowType.length, FirstSize)

  /** By the fields of [[ChangeSchema]]: where they are in rows, -1 where they are not wanted. */
  private val ordinals: Array[Int] = ChangeSchema.schema.indices.map { field =>
    val index = format.requiredFields.indexOf(field)
    if (index < 0) -1 else format.requiredColumns.length + index
  }.toArray

  /** Whether anything of rows comes from their cells. */
  private val needsTuple = format.requiredColumns.nonEmpty || ordinals(MISSING) >= 0

  /** By the kinds of rows whether they are wanted. */
  private val keeps: Array[Boolean] = ChangeType.all.map(format.filter.keepsType).toArray

  private val tuple = new RowImage
  private var transaction: Transaction = _
  private var position = 0L

  /** The rows of the change that are still to be given. */
  private val pending = mutable.ArrayDeque.empty[PendingRow]

  /**
   * Begins with the next change, which is checked whether rows are wanted of it or not.
   *
   * @param transaction
   *   the change's; no rows are made where it has no commit
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
      message(0) match {
        case 'I' => add(tableOfTuples(known), Rows.Insert, 1)
        case 'U' =>
          val found = tableOfTuples(known)
          if (has(ChangeMessageDecoder.Key) || has(ChangeMessageDecoder.Old))
            add(found, Rows.UpdatePreimage, 0)
          add(found, Rows.UpdatePostimage, 1)
        case 'D' => add(tableOfTuples(known), Rows.Delete, 1)
        case 'T' =>
          tuples.relationIds.zipWithIndex.foreach { case (oid, index) =>
            add(table(known, oid), Rows.Truncate, index)
          }
      }
    }
  }

  override def hasNext: Boolean = pending.nonEmpty

  /** The next row of the change, in memory that the one after it is written to. */
  override def next(): UnsafeRow = {
    val row = pending.removeHead()
    writer.reset()
    writer.zeroOutNullBytes()
    if (row.kind eq Rows.Truncate) row.table.reader.writeNulls()
    else if (needsTuple) {
      startTuple(row.table, row.kind)
      row.table.reader.read(tuple, position)
    }
    writeFields(row.table, row.kind, row.ordinal)
    writer.getRow
  }

  private def has(field: Int) = tuples.cells(field) != null

  /** The table of an Insert, Update or Delete, whose tuples must be as wide. */
  private def tableOfTuples(known: KnownRelations): Table = {
    val found = table(known, tuples.relationId)
    val columns = found.relation.columns.length
    var field = ChangeMessageDecoder.Key
    while (field <= ChangeMessageDecoder.New) {
      val cells = tuples.cells(field)
      if (cells != null && cells.columns != columns) {
        throw new SchemaMismatchException(
          s"position $position: a tuple of table ${found.relation.name} (oid ${found.relation.oid}) " +
            s"has ${RowSchema.columns(cells.columns)}, its Relation message " +
            s"${RowSchema.columns(columns)}."
        )
      }
      field += 1
    }
    found
  }

  private def add(table: Table, kind: Rows, ordinal: Int): Unit =
    if (table.isWanted && keeps(kind.index)) {
      pending.append(PendingRow(table, kind, transaction.nextOrdinal + ordinal))
    }

  private def startTuple(table: Table, kind: Rows): Unit = {
    val key = tuples.cells(ChangeMessageDecoder.Key)
    val old = if (key != null) key else tuples.cells(ChangeMessageDecoder.Old)
    val isKey = table.reader.isKey
    if ((kind eq Rows.Insert) || (kind eq Rows.UpdatePostimage)) {
      tuple.start(isKey, tuples.cells(ChangeMessageDecoder.New), false, old, key != null)
    } else tuple.start(isKey, old, key != null, null, false)
  }

  private def writeFields(table: Table, kind: Rows, ordinal: Long): Unit = {
    val commit = transaction.commit
    bytes(TABLE, table.name)
    bytes(CHANGE_TYPE, kind.nameBytes)
    long(COMMIT_VERSION, commit.lsn)
    long(COMMIT_TIMESTAMP, commit.timestamp)
    long(XID, transaction.xid)
    text(GID, commit.gid)
    text(ORIGIN, transaction.origin)
    long(ORDINAL, ordinal)
    long(POSITION, position)
    bytes(KEYS, table.keys)
    if (ordinals(MISSING) >= 0) {
      bytes(MISSING, if (kind eq Rows.Truncate) NameArray.empty else table.reader.missing.names)
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

  /** The table as it is at this place. */
  private def table(known: KnownRelations, oid: Long): Table = {
    val sent = known.relation(transaction, oid)
    if (sent == null) throw ChangesError.unknownRelation(oid, position)
    val last = tables.getOrNull(oid)
    if (last != null && (last.sent eq sent)) last
    else if (last != null && last.isSame(sent)) {
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
    val reader =
      if (isWanted) TableWriter.of(relation, format.copy(types = types), writer, position)
      else null
    new Table(sent, relation, reader)
  }
}

private object ChangeRowWriter {
  final private val FirstSize = 512

  /** A kind of row. */
  final private class Rows(name: String) {
    val index: Int = ChangeType.all.indexOf(name)
    val nameBytes: Array[Byte] = name.getBytes(StandardCharsets.US_ASCII)
  }

  private object Rows {
    val Insert = new Rows(ChangeType.Insert)
    val UpdatePreimage = new Rows(ChangeType.UpdatePreimage)
    val UpdatePostimage = new Rows(ChangeType.UpdatePostimage)
    val Delete = new Rows(ChangeType.Delete)
    val Truncate = new Rows(ChangeType.Truncate)
  }

  final private case class PendingRow(table: Table, kind: Rows, ordinal: Long)

  /**
   * @param sent
   *   the Relation message, the last of those that are the same
   * @param reader
   *   null where no rows of the table are wanted
   */
  final private class Table(
      var sent: SchemaMessage,
      val relation: Relation,
      val reader: TableWriter
  ) {
    val name: Array[Byte] = relation.name.toString.getBytes(StandardCharsets.UTF_8)
    val keys: Array[Byte] = NameArray.of(relation.columns.filter(_.isKey).map(_.name))
    def isWanted: Boolean = reader != null

    /** Whether another Relation message says the same. */
    def isSame(other: SchemaMessage): Boolean = Arrays.equals(
      sent.message,
      sent.headSize,
      sent.message.length,
      other.message,
      other.headSize,
      other.message.length
    )
  }
}
