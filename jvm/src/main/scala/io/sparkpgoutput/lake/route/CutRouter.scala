package io.sparkpgoutput.lake.route

import java.util.Arrays

import scala.annotation.switch
import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.types.{ArrayType, BooleanType, DataType, NumericType, StructType}

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.changes.rows.{ChangeMessageDecoder, Relation, RelationDecoder, RowImage}
import io.sparkpgoutput.changes.transactions.SchemaMessage
import io.sparkpgoutput.errors.PgOutputException
import io.sparkpgoutput.lake.catalog.{MirroredTable, ReplicaIdentity, TableError, TableMode}
import io.sparkpgoutput.protocol.MessageType.Tag
import io.sparkpgoutput.protocol.StreamContext.OUTSIDE
import io.sparkpgoutput.protocol.{
  BeginMessage,
  BigEndian,
  Lsn,
  TextEncoding,
  TruncateMessage,
  TupleCells
}
import io.sparkpgoutput.rows.RowSchema

/**
 * Makes rows of [[ChangeFields]] from the messages of one table, in order, as
 * [[io.sparkpgoutput.lake.queue.CutMessages]] gives them. It keeps only the definitions of the table, so a cut can be
 * larger than the memory.
 *
 * A change makes two rows if an update gives a row another key, none if it has no effect, else one. A TRUNCATE makes a
 * row only for a history, which keeps all changes.
 *
 * @param mark the transactions with a lower commit LSN are in the target already
 * @param names the column of the target for each name at the server that is not the target's
 * @param put takes a row, which is valid until it returns
 */
final class CutRouter(
    table: MirroredTable,
    mark: Long,
    names: Map[String, String],
    put: InternalRow => Unit
) {
  import CutRouter._

  /** The columns by which rows are found if the replica identity is FULL. Else, the Relation message names them. */
  private val key = table.targetKey.toSet

  /** The columns of the target in which two texts can be the same number. */
  private val numbers = table.schema.filter(field => isOfNumbers(field.dataType)).map(_.name).toSet

  /**
   * Whether changes have the beginnings of their transactions, for a history, or for the time when a row or version
   * ends.
   */
  private val hasTransactions = table.mode != TableMode.Mirror

  private val decoder = new ChangeMessageDecoder(TextEncoding.Utf8)
  private val relations = new RelationDecoder(TextEncoding.Utf8)
  private val types = mutable.LongMap.empty[Array[Byte]]
  private val definitions = mutable.ArrayBuffer.empty[DefinedTable]
  private val row = new GenericInternalRow(ChangeFields.schema.length)
  private val image = new RowImage
  private val oldKey = new KeyBytes
  private val newKey = new KeyBytes

  /** The definition in force. */
  private var current: DefinedTable = _
  private var position = -1L

  /** The LSN and the time of the commit of the message. */
  private var lsn = 0L
  private var time = 0L

  /** The messages that [[TransactionStart]] has. */
  private var transaction: Array[Byte] = _

  private var inserts = 0L
  private var updates = 0L
  private var deletes = 0L
  private var truncations = Vector.empty[Truncation]
  private var keyChanges = 0L
  private var moved = 0L
  private var lastCommit = 0L

  /** Whether the new row of the change has all values. */
  private var isWhole = false

  /** How many rows have no hash of a key. */
  private var unhashed = 0L

  /**
   * Takes the next message.
   *
   * @param ordinal the position of the message in its transaction
   */
  def take(ordinal: Long, message: Array[Byte]): Unit = {
    position += 1
    (message(0).toChar: @switch) match {
      case Tag.Insert | Tag.Update | Tag.Delete => if (isNew) change(ordinal, message)
      case Tag.Begin                            => begin(message)
      case Tag.Relation                         => define(message)
      case Tag.Type     => types.update(BigEndian.uint32(message, 1), message)
      case Tag.Truncate => if (isNew) truncate(ordinal)
      case Tag.Origin   => transaction ++= message
      case Tag.Commit   => ()
    }
  }

  /** Whether the changes of the transaction are not in the target yet. */
  private def isNew = !Lsn.isBelow(lsn, mark)

  private def begin(message: Array[Byte]): Unit = {
    lsn = BeginMessage.lsn(message)
    time = BeginMessage.timestamp(message)
    transaction = message
  }

  private def define(message: Array[Byte]): Unit = {
    val relation = relations.relation(SchemaMessage.outsideStream(message, position))
    val used = relation.columns.map(_.typeId).distinct.flatMap(types.get(_))
    if (current == null || !current.isSame(message, used)) {
      current = new DefinedTable(relation, message, used, definitions.length)
      definitions += current
    }
  }

  private def truncate(ordinal: Long): Unit = {
    truncations :+= Truncation(MessagePosition(lsn, ordinal), time)
    lastCommit = time
    if (table.isHistory)
      write(RowEffect.Truncate, newKey, ordinal, TruncateMessage.of(table.source.oid))
  }

  private def change(ordinal: Long, message: Array[Byte]): Unit = {
    decoder.read(position, message, OUTSIDE)
    lastCommit = time
    current.changes += 1
    isWhole = true
    if (table.isHistory) keep(ordinal, message) else route(ordinal, message)
  }

  /** Takes the change as it is. */
  private def keep(ordinal: Long, message: Array[Byte]): Unit = {
    tuples.foreach(cells) // checks the number of columns
    val effect = message(0).toChar match {
      case Tag.Insert => inserts += 1; RowEffect.Insert
      case Tag.Delete => deletes += 1; RowEffect.Delete
      case _          => updates += 1; RowEffect.Update
    }
    write(effect, newKey, ordinal, message)
  }

  /** Finds the row that changes. */
  private def route(ordinal: Long, message: Array[Byte]): Unit = {
    val oldIsKey = cells(ChangeMessageDecoder.Key) != null
    val field = if (oldIsKey) ChangeMessageDecoder.Key else ChangeMessageDecoder.Old
    message(0).toChar match {
      case Tag.Insert =>
        inserts += 1
        readKey(newKey, cells(ChangeMessageDecoder.New), false, null, false)
        if (!isWhole && current.partialInsert.isEmpty) current.partialInsert = Some(lsn)
        write(RowEffect.Insert, newKey, ordinal, message)
      case Tag.Delete =>
        deletes += 1
        readKey(newKey, cells(field), oldIsKey, null, false)
        isWhole = true
        write(RowEffect.Delete, newKey, ordinal, message)
      case _ => update(field, oldIsKey, ordinal, message)
    }
  }

  private def update(field: Int, oldIsKey: Boolean, ordinal: Long, message: Array[Byte]): Unit = {
    updates += 1
    current.updates += 1
    val old = cells(field)
    if (old != null) readKey(oldKey, old, oldIsKey, null, false)
    isWhole = current.isComplete
    val sent = cells(ChangeMessageDecoder.New)
    readKey(newKey, sent, false, cells(field), oldIsKey)
    if (old == null || oldKey.isSame(newKey)) {
      // Without a key, an update that leaves the row as it is does nothing.
      if (!current.keyIsRow || old == null) write(RowEffect.Update, newKey, ordinal, message)
    } else {
      keyChanges += 1
      if (!isWhole && !current.isFull) moved += 1
      write(RowEffect.MovedOut, oldKey, ordinal, message)
      write(RowEffect.MovedIn, newKey, ordinal, message)
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
        // An old row with all columns has the values that the new row lacks.
        val hasOld = old != null && !oldIsKey
        if (hasOld || current.inKey(column)) throw TableError.keyNotSent(current.relation.name)
        if (!sentIsKey) {
          isWhole = false
          current.unsent(column) = true
        }
      } else if (current.inKey(column)) {
        val cells = image.cells
        if (kind == 'n') {
          // With FULL, the key is the primary key. The server describes the old row of a partition by the identity of
          // the root, and sends NULL for the columns that the partition's own identity lacks.
          val isOfPartition = current.isFull && !current.keyIsRow
          if (sentIsKey || isOfPartition) throw TableError.keyIsNull(current.relation.name)
          key.addNull()
        } else if (current.isNumber(column)) key.addNumber(cells.bytes, cells.from, cells.to)
        else key.add(cells.bytes, cells.from, cells.to)
      }
      column += 1
    }
  }

  /** Returns the cells of a tuple, one for each column of the table; null if the message has no such tuple. */
  private def cells(field: Int): TupleCells = {
    val tuple = decoder.cells(field)
    val columns = current.relation.columns.length
    if (tuple != null && tuple.columns != columns) {
      throw new PgOutputException(
        "PGOUTPUT_SCHEMA_MISMATCH.RELATION",
        "place" -> s"message $position",
        "table" -> current.relation.name,
        "oid" -> table.source.oid,
        "found" -> RowSchema.columns(tuple.columns),
        "wanted" -> RowSchema.columns(columns)
      )
    }
    tuple
  }

  /** Puts a row of the change, unless the definition in force lacks a column of the key. */
  private def write(effect: Int, key: KeyBytes, ordinal: Long, message: Array[Byte]): Unit =
    if (current.missingKey.isEmpty) {
      row.update(ChangeFields.HASH, hash(key))
      row.update(ChangeFields.KEY, key.copy)
      row.update(ChangeFields.LSN, lsn)
      row.update(ChangeFields.ORDINAL, ordinal)
      row.update(ChangeFields.KIND, effect)
      row.update(ChangeFields.TRANSACTION, if (hasTransactions) transaction else null)
      row.update(ChangeFields.WHOLE, isWhole)
      row.update(ChangeFields.DEFINITION, current.number)
      row.update(ChangeFields.MESSAGE, message)
      put(row)
    }

  /** The number by which changes are partitioned. All changes of a row have the same number. */
  private def hash(key: KeyBytes): Long =
    if (current.hasKey && !table.isHistory) key.hash
    else {
      unhashed += 1
      // Without a replica identity, there are only inserts, which can be on any executor.
      if (table.isHistory) unhashed / InOrder else unhashed * Spread
    }

  /** The summary of the messages up to now; None if no change is at or above the mark. */
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

  /**
   * A table by one Relation message.
   *
   * @param message the Relation message
   * @param types the Type messages of its columns
   * @param number the number of the definition in the cut
   */
  final private class DefinedTable(
      val relation: Relation,
      message: Array[Byte],
      types: IndexedSeq[Array[Byte]],
      val number: Int
  ) {
    private val targets = relation.columns.map(column => names.getOrElse(column.name, column.name))
    val isFull: Boolean = relation.identity == ReplicaIdentity.Full.code

    /** True if the target has no column that the definition does not have. */
    val isComplete: Boolean = table.schema.fieldNames.forall(targets.contains)

    /** True if a row is identified by all of its values. */
    val keyIsRow: Boolean = isFull && key.isEmpty
    val isIdentity: Array[Boolean] = relation.columns.map(_.isKey).toArray
    val inKey: Array[Boolean] = if (isFull && !keyIsRow) targets.map(key).toArray else isIdentity
    val hasKey: Boolean = inKey.contains(true)
    val isNumber: Array[Boolean] = targets.map(name => !keyIsRow && numbers(name)).toArray
    val missingKey: Seq[String] = if (isFull) (key -- targets).toSeq else Nil

    val unsent: Array[Boolean] = new Array[Boolean](targets.length)
    var changes = 0L
    var updates = 0L

    /** The LSN of the first commit with an insert that did not send all values. */
    var partialInsert: Option[Long] = None

    def isSame(otherMessage: Array[Byte], otherTypes: IndexedSeq[Array[Byte]]): Boolean =
      Arrays.equals(message, otherMessage) &&
        types.corresponds(otherTypes)((one, other) => Arrays.equals(one, other))

    def report: CutDefinition = CutDefinition(
      relation,
      types,
      changes,
      updates,
      unsent.toIndexedSeq,
      partialInsert,
      missingKey
    )
  }
}

private object CutRouter {

  /** Spreads numbers that follow each other over all 64 bits (the golden ratio). */
  final private val Spread = 0x9e3779b97f4a7c15L

  /** How many changes stay together, in order, if all changes of a table are kept. */
  final private val InOrder = 1024

  private val tuples =
    Seq(ChangeMessageDecoder.Key, ChangeMessageDecoder.Old, ChangeMessageDecoder.New)

  /** Returns whether the text of a value has numbers and nothing that can look like one. */
  private def isOfNumbers(dataType: DataType): Boolean = dataType match {
    case ArrayType(element, _) => isOfNumbers(element)
    case StructType(fields)    =>
      // A range has booleans, too.
      fields.forall(field => field.dataType == BooleanType || isOfNumbers(field.dataType))
    case other => other.isInstanceOf[NumericType]
  }
}

/**
 * The changes of a table in a cut. Changes below the mark of the table do not count.
 *
 * @param name the name by the last Relation message
 * @param definitions how the messages describe the table, one definition after the other
 * @param truncations each TRUNCATE, in order
 * @param keyChanges the updates that changed the key
 * @param moved the updates that changed the key and did not send all values
 * @param lastCommit
 *   the time of the last commit with a change of the table, in microseconds since 1970
 */
final case class CutSummary(
    name: TableName,
    definitions: IndexedSeq[CutDefinition],
    inserts: Long,
    updates: Long,
    deletes: Long,
    truncations: IndexedSeq[Truncation],
    keyChanges: Long,
    moved: Long,
    lastCommit: Long
) {
  def changes: Long = inserts + updates + deletes + truncations.length

  /** The last TRUNCATE. */
  def truncated: Option[MessagePosition] = truncations.lastOption.map(_.at)
}

/**
 * A TRUNCATE of a table.
 *
 * @param time the time of its commit, in microseconds since 1970
 */
final case class Truncation(at: MessagePosition, time: Long)

/**
 * A table as one Relation message describes it.
 *
 * @param types the Type messages of its columns
 * @param changes
 *   the inserts, updates and deletes under this definition. If there are none, nothing is checked: the table can
 *   have been altered, and then copied.
 * @param updates the updates among them
 * @param unsent for each column, whether an update did not send its value
 * @param partialInsert
 *   the LSN of the first commit with an insert that did not send all values: the row filter of a
 *   publication has turned an update into this insert
 * @param missingKey
 *   the columns of the table's key that the Relation message lacks. If it lacks one, the router drops the changes.
 */
final case class CutDefinition(
    relation: Relation,
    types: IndexedSeq[Array[Byte]],
    changes: Long,
    updates: Long,
    unsent: IndexedSeq[Boolean],
    partialInsert: Option[Long],
    missingKey: Seq[String]
)

/** The place of a message in the stream. */
final case class MessagePosition(lsn: Long, ordinal: Long)

/** The beginning of a transaction: its Begin message and then its Origin message, if there is one. */
object TransactionStart {

  /** Origin: Int64 LSN of the commit at the origin; String name, which a zero byte ends. */
  final private val OriginHead = 1 + 8

  /** The name of the replication origin in UTF-8; null if there is none. */
  def origin(start: Array[Byte]): Array[Byte] =
    if (start.length == BeginMessage.Size) null
    else start.slice(BeginMessage.Size + OriginHead, start.length - 1)
}
