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
import io.sparkpgoutput.source.output.MessageFields

/**
 * Makes rows of [[ChangeFields]] of the messages of a batch, in order. The task that reads the batch
 * runs it, so nothing is kept but the definitions of tables. A row is valid until the next one.
 *
 * @param messages rows with [[BatchRouter.columns]]
 * @param report takes the statistics when all messages were read
 */
final class BatchRouter(
    tables: Seq[RoutedTable],
    messages: Iterator[InternalRow],
    report: BatchStatistics => Unit
) extends Iterator[InternalRow] {

  private val decoder = new ChangeMessageDecoder(TextEncoding.Utf8)
  private val relations = new RelationDecoder(TextEncoding.Utf8)
  private val types = mutable.LongMap.empty[Array[Byte]]
  private val known: mutable.LongMap[TableRouter] =
    mutable.LongMap.from(tables.zipWithIndex.map { case (table, number) =>
      table.oid -> new TableRouter(table, number)
    })
  private val others = mutable.LongMap.empty[OtherTable]
  private var transactions = 0L
  private var position = -1L

  /** The LSN and the time of the commit of the message. */
  private var lsn = 0L
  private var time = 0L
  private var ordinal = 0L

  /** The messages that [[TransactionStart]] has. */
  private var transaction: Array[Byte] = _

  private val row = new GenericInternalRow(ChangeFields.schema.length)

  /** The table whose change has more rows, or null. */
  private var pending: TableRouter = _

  /** The tables that follow, if a TRUNCATE is one of several tables. */
  private val truncated = mutable.Queue.empty[TableRouter]
  private var isDone = false

  override def hasNext: Boolean = {
    while (!isPending && messages.hasNext) read(messages.next())
    val found = isPending
    if (!found && !isDone) {
      isDone = true
      report(statistics)
    }
    found
  }

  private def hasPending = pending != null && pending.hasNext

  /** Goes on to the next table of a TRUNCATE. Tells if there is a row. */
  private def isPending: Boolean = {
    while (!hasPending && truncated.nonEmpty) pending = truncated.dequeue()
    hasPending
  }

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException
    pending.write(row)
    row.update(ChangeFields.TRANSACTION, if (pending.isKept) transaction else null)
    row.update(ChangeFields.LSN, lsn)
    row.update(ChangeFields.ORDINAL, ordinal)
    row
  }

  private def read(input: InternalRow): Unit = {
    position += 1
    ordinal = input.getLong(BatchRouter.Ordinal)
    val message = input.getBinary(BatchRouter.Message)
    (message(0).toChar: @switch) match {
      case Tag.Insert | Tag.Update | Tag.Delete => change(message)
      case Tag.Begin                            => begin(message)
      case Tag.Relation                         => define(message)
      case Tag.Type     => types.update(BigEndian.uint32(message, 1), message)
      case Tag.Truncate => truncate(message)
      case Tag.Origin   => transaction = transaction ++ message
      case Tag.Commit | Tag.Message | Tag.StreamAbort => ()
      case _ => throw ChangesError.notWhole("a message of a streamed transaction", position)
    }
  }

  private def begin(message: Array[Byte]): Unit = {
    lsn = BeginMessage.lsn(message)
    time = BeginMessage.timestamp(message)
    transaction = message
    transactions += 1
  }

  private def define(message: Array[Byte]): Unit = {
    val sent = SchemaMessage.outsideStream(message, position)
    val (oid, relation) = (sent.oid, relations.relation(sent))
    val table = known.getOrNull(oid)
    if (table == null) {
      val changes = others.get(oid).fold(0L)(_.changes)
      others.update(oid, OtherTable(relation.name, changes))
    } else {
      val used = relation.columns.map(_.typeId).distinct.flatMap(types.get(_))
      table.define(relation, message, used)
    }
  }

  private def change(message: Array[Byte]): Unit = {
    decoder.read(position, message, OUTSIDE)
    val table = tableOf(decoder.relationId)
    if (table != null && !Lsn.isBelow(lsn, table.mark)) {
      table.change(message, decoder, position, lsn, time)
      pending = table
    }
  }

  private def truncate(message: Array[Byte]): Unit = {
    decoder.read(position, message, OUTSIDE)
    decoder.relationIds.foreach { oid =>
      val table = tableOf(oid)
      if (table != null && !Lsn.isBelow(lsn, table.mark)) {
        table.truncate(MessagePosition(lsn, ordinal), time)
        if (table.isKept) truncated += table
      }
    }
  }

  /** The table with an oid; null if it is not the job's, and then the change is counted. */
  private def tableOf(oid: Long): TableRouter = {
    val table = known.getOrNull(oid)
    if (table == null) {
      val other = others.getOrElse(oid, throw ChangesError.unknownRelation(oid, position))
      others.update(oid, other.copy(changes = other.changes + 1))
    } else if (!table.isDefined) throw ChangesError.unknownRelation(oid, position)
    table
  }

  private def statistics = BatchStatistics(
    known.values.flatMap(_.statistics).map(table => table.oid -> table).toMap,
    others.toMap.filter(_._2.changes > 0),
    transactions,
    time
  )
}

object BatchRouter {

  /** The columns of the messages: the ordinal in the transaction, and the message. */
  val columns: Seq[Int] = Seq(MessageFields.ORDINAL, MessageFields.DATA)

  final private val Ordinal = 0
  final private val Message = 1
}
