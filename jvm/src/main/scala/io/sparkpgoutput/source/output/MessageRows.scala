package io.sparkpgoutput.source.output

import java.nio.ByteBuffer

import scala.annotation.switch
import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow

import io.sparkpgoutput.changes.rows.RelationDecoder
import io.sparkpgoutput.changes.transactions.SchemaMessage
import io.sparkpgoutput.errors.PgOutputException
import io.sparkpgoutput.protocol.MessageType.Tag
import io.sparkpgoutput.protocol.{BeginMessage, BigEndian, TextEncoding, TruncateMessage}

/**
 * Makes a row of each message. The server describes a table and its types once in a session. In the rows,
 * each batch has a table's Relation message, and the Type messages of its columns, before the first
 * change of the table, and again only where they differ. So a batch can be read by itself, and a
 * message has the same ordinal whenever the batch is read.
 *
 * @param fields the ordinals of the fields of [[MessageFields]] that rows have
 */
final class MessageRows(fields: Seq[Int]) extends SlotRows with Iterator[InternalRow] {
  private val decoder = new RelationDecoder(TextEncoding.Utf8)
  private val relations = mutable.LongMap.empty[RelationMessages]
  private val types = mutable.LongMap.empty[ByteBuffer]

  /** The types that this batch has. */
  private val writtenTypes = mutable.LongMap.empty[ByteBuffer]
  private var batch = 0
  private var lsn = 0L
  private var xid = 0L
  private var ordinal = 0L
  private val pending = mutable.ArrayDeque.empty[Array[Byte]]

  override def startBatch(): Unit = {
    batch += 1
    writtenTypes.clear()
  }

  override def message(message: Array[Byte]): Iterator[InternalRow] = {
    try read(message)
    catch { case _: IndexOutOfBoundsException => throw malformed(message) }
    this
  }

  private def read(message: Array[Byte]): Unit = (message(0).toChar: @switch) match {
    case Tag.Begin    => begin(message)
    case Tag.Relation => relation(message)
    case Tag.Type     => types.update(BigEndian.uint32(message, 1), ByteBuffer.wrap(message))
    case Tag.Insert | Tag.Update | Tag.Delete =>
      define(BigEndian.uint32(message, 1))
      pending.append(message)
    case Tag.Truncate =>
      TruncateMessage.foreachTable(message)(define)
      pending.append(message)
    // PostgreSQL 18 sends Stream Abort for a rolled back transaction without streaming too.
    case Tag.StreamAbort => ()
    case _               => pending.append(message)
  }

  private def begin(message: Array[Byte]): Unit = {
    lsn = BeginMessage.lsn(message)
    xid = BeginMessage.xid(message)
    ordinal = 0
    pending.append(message)
  }

  private def relation(message: Array[Byte]): Unit = {
    val schema = SchemaMessage.outsideStream(message)
    val columns = decoder.relation(schema).columns
    val used = columns.map(_.typeId).distinct.flatMap(oid => types.get(oid).map(oid -> _))
    val sent = RelationMessages(ByteBuffer.wrap(message), used)
    if (!relations.get(schema.oid).contains(sent)) relations.update(schema.oid, sent)
  }

  /** Puts the messages that describe a table in front of its first change in the batch. */
  private def define(oid: Long): Unit = {
    val definition = relations.getOrNull(oid)
    // If there is no Relation message, the change comes alone, and whoever decodes it reports the error.
    if (definition != null && definition.batch != batch) {
      definition.batch = batch
      definition.types.foreach { case (typeId, message) =>
        if (!writtenTypes.put(typeId, message).contains(message)) pending.append(message.array)
      }
      pending.append(definition.message.array)
    }
  }

  override def hasNext: Boolean = pending.nonEmpty

  override def next(): InternalRow = {
    val row = new GenericInternalRow(fields.length)
    val data = pending.removeHead()
    var index = 0
    while (index < fields.length) {
      row.update(index, value(fields(index), data))
      index += 1
    }
    ordinal += 1
    row
  }

  private def value(field: Int, data: Array[Byte]): Any = field match {
    case MessageFields.LSN     => lsn
    case MessageFields.ORDINAL => ordinal
    case MessageFields.XID     => xid
    case _                     => data
  }

  private def malformed(message: Array[Byte]) = new PgOutputException(
    "PGOUTPUT_MALFORMED_MESSAGE.TOO_SHORT",
    "length" -> message.length,
    "transaction" -> s"xid $xid"
  )
}

/** A Relation message, and the Type messages of its columns. Two are equal if they have the same bytes. */
final private case class RelationMessages(message: ByteBuffer, types: Seq[(Long, ByteBuffer)]) {

  /** The number of the last batch that has the definition. */
  var batch = 0
}
