package io.sparkpgoutput.lake.batch

import scala.annotation.switch
import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow

import io.sparkpgoutput.changes.ChangesError
import io.sparkpgoutput.changes.rows.{ChangeMessageDecoder, RelationDecoder}
import io.sparkpgoutput.changes.transactions.SchemaMessage
import io.sparkpgoutput.protocol.MessageType.Tag
import io.sparkpgoutput.protocol.StreamContext.OUTSIDE
import io.sparkpgoutput.protocol.{BeginMessage, BigEndian, Lsn, TextEncoding}

/**
 * Makes rows of [[ChangeFields]] of the messages of one table, in order. It keeps nothing but the
 * definitions of the table, so a cut can be larger than the memory.
 *
 * @param put takes a row, which is valid until it returns
 */
final class CutRouter(table: RoutedTable, put: InternalRow => Unit) {
  private val decoder = new ChangeMessageDecoder(TextEncoding.Utf8)
  private val relations = new RelationDecoder(TextEncoding.Utf8)
  private val types = mutable.LongMap.empty[Array[Byte]]
  private val router = new TableRouter(table)
  private val row = new GenericInternalRow(ChangeFields.schema.length)
  private var position = -1L

  /** The LSN and the time of the commit of the message. */
  private var lsn = 0L
  private var time = 0L

  /** The messages that [[TransactionStart]] has; null before the first transaction. */
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
      case Tag.Truncate => truncate(ordinal, message)
      case Tag.Origin   => transaction = started ++ message
      case Tag.Commit | Tag.Message | Tag.StreamAbort => ()
      case _ => throw ChangesError.notWhole("a message of a streamed transaction", position)
    }
  }

  /** The statistics of the messages up to now; None if no change is at or above the mark. */
  def statistics: Option[TableStatistics] = router.statistics

  private def begin(message: Array[Byte]): Unit = {
    lsn = BeginMessage.lsn(message)
    time = BeginMessage.timestamp(message)
    transaction = message
  }

  private def define(message: Array[Byte]): Unit = {
    val sent = SchemaMessage.outsideStream(message, position)
    if (sent.oid == table.oid) {
      val relation = relations.relation(sent)
      val used = relation.columns.map(_.typeId).distinct.flatMap(types.get(_))
      router.define(relation, message, used)
    }
  }

  private def change(ordinal: Long, message: Array[Byte]): Unit = {
    decoder.read(position, message, OUTSIDE)
    if (isNew(decoder.relationId)) {
      router.change(message, decoder, position, lsn, time)
      write(ordinal)
    }
  }

  /** The other tables of a TRUNCATE have it in their own queues. */
  private def truncate(ordinal: Long, message: Array[Byte]): Unit = {
    decoder.read(position, message, OUTSIDE)
    if (decoder.relationIds.contains(table.oid) && isNew(table.oid)) {
      router.truncate(MessagePosition(lsn, ordinal), time)
      write(ordinal)
    }
  }

  private def write(ordinal: Long): Unit = while (router.hasNext) {
    router.write(row)
    row.update(ChangeFields.TRANSACTION, if (table.isKept) transaction else null)
    row.update(ChangeFields.LSN, lsn)
    row.update(ChangeFields.ORDINAL, ordinal)
    put(row)
  }

  /** Returns whether a change of the table is not in the target yet. */
  private def isNew(oid: Long): Boolean = {
    if (oid != table.oid || !router.isDefined) throw ChangesError.unknownRelation(oid, position)
    started: Unit
    !Lsn.isBelow(lsn, table.mark)
  }

  private def started: Array[Byte] =
    if (transaction != null) transaction
    else throw ChangesError.notWhole("a change before the beginning of its transaction", position)
}
