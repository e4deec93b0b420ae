package io.sparkpgoutput.changes.transactions

import java.util.Arrays

import scala.collection.mutable

import io.sparkpgoutput.changes.PositionedDecoder
import io.sparkpgoutput.decode.FieldSelection
import io.sparkpgoutput.protocol._

/**
 * A Relation or Type message.
 *
 * @param inStream true if it was sent between Stream Start and Stream Stop
 */
final case class SchemaMessage(oid: Long, position: Long, message: Array[Byte], inStream: Boolean) {

  /** Whether it is a Type message, and not a Relation message. */
  def isType: Boolean = message(0) == MessageType.Tag.Type

  /** The bytes before the fields of the message: the tag, and the xid in a stream block. */
  private def headSize: Int = if (inStream) 5 else 1

  /** Whether another message has the same fields. */
  def saysSame(other: SchemaMessage): Boolean = {
    val sent = other.message
    Arrays.equals(message, headSize, message.length, sent, other.headSize, sent.length)
  }
}

object SchemaMessage {

  /** A message that was not sent between Stream Start and Stream Stop. Its first field is the oid. */
  def outsideStream(message: Array[Byte], position: Long = 0): SchemaMessage =
    SchemaMessage(BigEndian.uint32(message, 1), position, message, inStream = false)

  /** Returns whether a message is a Relation or Type message. */
  def is(message: Array[Byte]): Boolean =
    message.length > 0 &&
      (message(0) == MessageType.Tag.Relation || message(0) == MessageType.Tag.Type)
}

/** The relations and types that are known at a position of a stream. */
final class KnownRelations {
  private val relations = mutable.LongMap.empty[SchemaMessage]
  private val types = mutable.LongMap.empty[SchemaMessage]

  /** The last Relation message of each table, and the last Type message of each type. */
  def all: Seq[SchemaMessage] = relations.values.toSeq ++ types.values

  /** The last Type message of each type. */
  def typeMessages: Iterable[SchemaMessage] = types.values

  /** The Relation message for a change of the transaction; null if there is none. */
  def relation(transaction: Transaction, oid: Long): SchemaMessage = {
    val own = transaction.relation(oid)
    if (own == null) relations.getOrNull(oid) else own
  }

  /** Takes the next Relation or Type message. */
  def add(sent: SchemaMessage): Unit = of(sent).update(sent.oid, sent)

  /** Takes a Relation or Type message, unless a later one of its table or type is known. */
  def addIfLast(sent: SchemaMessage): Unit =
    if (!of(sent).get(sent.oid).exists(_.position > sent.position)) add(sent)

  /** Takes the next Relation or Type message, and returns whether it says something new. */
  def addIfNew(sent: SchemaMessage): Boolean =
    !of(sent).put(sent.oid, sent).exists(_.saysSame(sent))

  def clearRelations(): Unit = relations.clear()

  /** Knows only the last of some messages that were sent before a position. */
  def restart(all: Seq[SchemaMessage], position: Long): Unit = {
    relations.clear()
    types.clear()
    all.filter(_.position < position).foreach(addIfLast)
  }

  private def of(sent: SchemaMessage) = if (sent.isType) types else relations
}

/**
 * Decodes the messages without tuples. The tuples are the last fields, so the ordinals of the others are
 * those of the schema. Not thread-safe.
 */
final class ControlMessageDecoder(encoding: TextEncoding)
    extends PositionedDecoder(
      encoding,
      FieldSelection.messageFields(0 until MessageSchema.KEY: _*)
    ) {

  /** Returns whether a message is outside of stream blocks, as far as its bytes show it. */
  def isOutside(position: Long, message: Array[Byte]): Boolean =
    decode(position, message, StreamContext.UNKNOWN).isNullAt(MessageSchema.XID)

  /** Decodes what a Relation or Type message is about, and whether it is in a stream block. */
  def definition(position: Long, message: Array[Byte], context: Int): SchemaMessage = {
    val row = decode(position, message, context)
    val oid =
      if (message(0) == MessageType.Tag.Relation) row.getLong(MessageSchema.RELATION_ID)
      else row.getStruct(MessageSchema.PG_TYPE, PgTypeSchema.schema.length).getLong(PgTypeSchema.ID)
    SchemaMessage(oid, position, message, inStream = !row.isNullAt(MessageSchema.XID))
  }
}
