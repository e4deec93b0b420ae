package io.sparkpgoutput.lake.route

import scala.annotation.switch
import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.types.{ArrayType, BooleanType, DataType, NumericType, StructType}

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.changes.rows.{ChangeMessageDecoder, Relation, RelationDecoder}
import io.sparkpgoutput.changes.transactions.SchemaMessage
import io.sparkpgoutput.lake.catalog.{MirroredTable, TableMode}
import io.sparkpgoutput.protocol.MessageType.Tag
import io.sparkpgoutput.protocol.StreamContext.OUTSIDE
import io.sparkpgoutput.protocol.{BeginMessage, BigEndian, Lsn, TextEncoding}

/**
 * Makes rows of [[ChangeFields]] from the messages of one table, in order, as
 * [[io.sparkpgoutput.lake.queue.CutMessages]] gives them. It keeps only the definitions of the table, so a cut can be
 * larger than the memory.
 *
 * @param put takes a row, which is valid until it returns
 */
final class CutRouter(table: RoutedTable, put: InternalRow => Unit) {
  private val decoder = new ChangeMessageDecoder(TextEncoding.Utf8)
  private val relations = new RelationDecoder(TextEncoding.Utf8)
  private val types = mutable.LongMap.empty[Array[Byte]]
  private val router = new TableRouter(table, decoder)
  private val row = new GenericInternalRow(ChangeFields.schema.length)
  private var position = -1L

  /** The LSN and the time of the commit of the message. */
  private var lsn = 0L
  private var time = 0L

  /** The messages that [[TransactionStart]] has. */
  private var transaction: Array[Byte] = _

  /**
   * Takes the next message.
   *
   * @param ordinal the position of the message in its transaction
   */
  def take(ordinal: Long, message: Array[Byte]): Unit = {
    position += 1
    (message(0).toChar: @switch) match {
      case Tag.Insert | Tag.Update | Tag.Delete => change(ordinal, message)
      case Tag.Begin                            => begin(message)
      case Tag.Relation                         => define(message)
      case Tag.Type     => types.update(BigEndian.uint32(message, 1), message)
      case Tag.Truncate => truncate(ordinal)
      case Tag.Origin   => transaction ++= message
      case Tag.Commit   => ()
    }
  }

  /** The summary of the messages up to now; None if no change is at or above the mark. */
  def summary: Option[CutSummary] = router.summary

  private def begin(message: Array[Byte]): Unit = {
    lsn = BeginMessage.lsn(message)
    time = BeginMessage.timestamp(message)
    transaction = message
  }

  private def define(message: Array[Byte]): Unit = {
    val relation = relations.relation(SchemaMessage.outsideStream(message, position))
    val used = relation.columns.map(_.typeId).distinct.flatMap(types.get(_))
    router.define(relation, message, used)
  }

  private def change(ordinal: Long, message: Array[Byte]): Unit = {
    decoder.read(position, message, OUTSIDE)
    if (isNew) {
      router.change(message, position, lsn, time)
      write(ordinal)
    }
  }

  private def truncate(ordinal: Long): Unit = if (isNew) {
    router.truncate(MessagePosition(lsn, ordinal), time)
    write(ordinal)
  }

  private def write(ordinal: Long): Unit = while (router.hasNext) {
    router.write(row)
    row.update(ChangeFields.TRANSACTION, if (table.hasTransactions) transaction else null)
    row.update(ChangeFields.LSN, lsn)
    row.update(ChangeFields.ORDINAL, ordinal)
    put(row)
  }

  /** Whether the changes of the transaction are not in the target yet. */
  private def isNew = !Lsn.isBelow(lsn, table.mark)
}

/**
 * A table whose changes are taken out of the messages of a cut.
 *
 * @param mark the transactions with a lower commit LSN are in the target already
 * @param columns the columns of the target that come from the server
 * @param key
 *   the columns by which rows are found if the replica identity is FULL. In all other cases, the
 *   Relation message names them.
 * @param numbers the columns of the target in which two texts can be the same number
 * @param names the column of the target for each name at the server that is not the target's
 * @param isHistory
 *   true gives all changes as messages, in order. Then only the oid and the mark count.
 * @param hasTransactions
 *   true gives the changes with the beginnings of their transactions, for a history, or for the time of a deletion or
 *   of a version
 */
final case class RoutedTable(
    oid: Long,
    mark: Long,
    columns: Set[String],
    key: Set[String],
    numbers: Set[String],
    names: Map[String, String],
    isHistory: Boolean,
    hasTransactions: Boolean
) {

  /** The column of the target for a column at the server. */
  def nameOf(column: String): String = names.getOrElse(column, column)
}

object RoutedTable {
  def of(table: MirroredTable, mark: Long, names: Map[String, String]): RoutedTable = RoutedTable(
    table.source.oid,
    mark,
    table.schema.fieldNames.toSet,
    table.targetKey.toSet,
    table.schema.filter(field => isOfNumbers(field.dataType)).map(_.name).toSet,
    names,
    table.isHistory,
    hasTransactions = table.mode != TableMode.Mirror
  )

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

/**
 * The beginning of a transaction: its Begin message, and its Origin message if there is one.
 *
 * @param bytes the messages, one after the other
 */
final class TransactionStart(val bytes: Array[Byte]) {
  import TransactionStart._

  /** The time of the commit, in microseconds since 1970. */
  def timestamp: Long = BeginMessage.timestamp(bytes)

  def xid: Long = BeginMessage.xid(bytes)

  /** The name of the replication origin in UTF-8; null if there is none. */
  def origin: Array[Byte] =
    if (bytes.length == BeginMessage.Size) null
    else bytes.slice(BeginMessage.Size + OriginHead, bytes.length - 1)
}

object TransactionStart {

  /** Origin: Int64 LSN of the commit at the origin; String name, which a zero byte ends. */
  final private val OriginHead = 1 + 8
}
