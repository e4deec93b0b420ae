package io.sparkpgoutput.decode

import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.types.UTF8String

import io.sparkpgoutput.errors.PgOutputException
import io.sparkpgoutput.protocol._

/**
 * Decodes messages of pgoutput to rows of [[MessageSchema.schema]], or of a part of it. This head explains how the
 * bytes of a message become a row: '''one pass, two layouts'''.
 *
 * {{{
 *   a message      I [xid] oid N columns  t length value  n  u  t length value …
 *                  │               │      │
 *   reads          MessageLayouts ─┘      └─ TupleDecoder: the cells        MessageReader checks each field
 *                  │                      │
 *   writes         ▼ MessageRowWriter     ▼
 *   an UnsafeRow   nulls, type, xid, …, new ──► kinds, text ──► values      StructLayout knows the places
 * }}}
 *
 * '''One pass.''' [[MessageLayouts]] has a method for each message, which reads its fields in the order and in
 * the words of PostgreSQL's documentation, from the first byte to the last. [[MessageRowWriter]] writes each
 * field straight into a row in Spark's own format. There is no object for a message, and none for a field. Two
 * things are read more than once:
 *
 *  - A message of which the caller does not say whether it was inside a stream block: see "Two layouts".
 *  - Cells of a tuple that have been checked. The decoder walks over them again to write the binary ones, or to
 *    write the texts if only some of them are selected.
 *
 * '''Each field is checked.''' The reader compares each length and each count with the bytes that are left,
 * before anything is sized by it. The first field that does not fit is remembered as a [[DecodeFailure]]. From
 * then on nothing is left, and the reader gives zeros, so a malformed message ends like any other and needs no
 * exception. Bytes that are left over are a failure too.
 *
 * '''The whole message is checked, whichever part is selected.''' A [[FieldSelection]] says which fields a row
 * has, and a [[MessageFilter]] which messages give a row. The decoder reads and checks the others, and does not
 * write them. So it depends neither on the query nor on the optimizer which messages are malformed.
 *
 * '''Two layouts.''' Some messages can be inside a stream block and outside of one. Inside, the xid of the
 * transaction follows the tag. The message itself does not say where it was. A caller that knows it passes the
 * [[StreamContext]]. For a caller that does not know, the decoder reads the message without an xid, and if that
 * fails, with one. A reading must end at the last byte. The xid has four bytes, so the wrong layout takes the bytes
 * before or after a field for the field: a part of an oid for a marker or for a length. Nearly always, it then fails. A
 * reading that ends at the last byte is refused too if it has what PostgreSQL never sends:
 *
 *  - the xid 0,
 *  - a logical message that has an xid and is not transactional,
 *  - a Relation or Type message without an xid, whose namespace has a control character in its first four bytes.
 *
 * Both readings of a logical message can be valid, so the decoder always makes both. If both are valid, the one with
 * the smaller LSN is right, because the other one takes an xid for the flags and the upper bytes of the LSN. If the
 * reading without an xid is right, the decoder makes it again for the row. If both readings fail, the one that got
 * further says what is wrong.
 *
 * A message is the bytes that pgoutput wrote. PostgreSQL 13 and older send zero bytes if an origin was dropped:
 * that gives null. A decoder is not thread-safe.
 *
 * @see [[https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html]]
 * @see `src/backend/replication/logical/proto.c` of PostgreSQL, which writes the messages
 */
class MessageDecoder(
    encoding: TextEncoding,
    selection: FieldSelection = FieldSelection.All,
    final override protected val filter: MessageFilter = MessageFilter.all
) extends MessageLayouts(encoding, selection) {

  /**
   * Returns the row of a message. The row of the next message overwrites it. To keep the row, copy
   * it, as Spark's operators and expressions do.
   *
   * @param context one of [[StreamContext]]
   * @param failFast true makes a malformed message an error; false gives null for it
   * @return the row; null if the filter drops the message
   * @throws PgOutputException if pgoutput cannot have written the message
   */
  def decode(message: Array[Byte], context: Int, failFast: Boolean = true): UnsafeRow =
    if (message.length == 0) null
    else {
      val failure = read(message, context)
      if (failure != null && failFast) throw new PgOutputException(
        "PGOUTPUT_MALFORMED_MESSAGE.DECODED",
        "problem" -> failure.describe(message)
      )
      if (failure == null && kept) row.finish() else null
    }

  /** Returns what is wrong with the message, or null. */
  def errorOrNull(message: Array[Byte], context: Int): UTF8String = {
    val failure = if (message.length == 0) null else read(message, context)
    if (failure == null) null else UTF8String.fromString(failure.describe(message))
  }

  private def read(message: Array[Byte], context: Int): DecodeFailure = {
    val messageType = MessageType.of(message(0))
    if (messageType == null) unknown(message)
    else if (!messageType.inStream || context != StreamContext.UNKNOWN) {
      val withXid = messageType.inStream && context == StreamContext.INSIDE
      read(message, messageType, withXid, inferringContext = false)
    } else inferContext(message, messageType)
  }

  /** Reads a message without an xid, and with one if that fails. Both readings of a logical message can be valid. */
  private def inferContext(message: Array[Byte], messageType: MessageType): DecodeFailure = {
    val without = guess(message, messageType, withXid = false)
    val lsnWithout = logicalMessageLsn
    if (without == null && messageType.tag != MessageType.Tag.Message) null
    else {
      val withXid = guess(message, messageType, withXid = true)
      if (without != null) orElse(without, withXid)
      // If both readings are valid, the one with the smaller LSN is right.
      else if (withXid == null && Lsn.isBelow(logicalMessageLsn, lsnWithout)) null
      else guess(message, messageType, withXid = false)
    }
  }

  /** Reads a message with or without an xid after its tag. [[MessageLayouts]] refuses more, because this is a guess. */
  private def guess(message: Array[Byte], messageType: MessageType, withXid: Boolean) =
    read(message, messageType, withXid, inferringContext = true)

  /** If both readings failed, the one that got further says what is wrong. */
  private def orElse(without: DecodeFailure, withXid: DecodeFailure): DecodeFailure =
    if (withXid == null) null else if (withXid.at > without.at) withXid else without
}

/**
 * The messages that a query keeps. The decoder makes no row of the others, but it checks them too.
 *
 * @param types the names of the types that are kept; None for all
 * @param relationIds
 *   the tables whose messages are kept; None for all messages. If there are such tables, messages without
 *   `relation_id` are dropped.
 */
final case class MessageFilter(types: Option[Set[String]], relationIds: Option[Set[Long]]) {
  private val keepsTag: Array[Boolean] = {
    val kept = MessageType.all.filter(message => types.forall(_.contains(message.name))).map(_.tag)
    Array.tabulate(256)(tag => kept.contains(tag.toChar))
  }
  private val sortedIds: Array[Long] = relationIds.map(_.toArray.sorted).orNull

  /** Returns whether to keep a message that has no `relation_id`. */
  def keeps(tag: Int): Boolean =
    sortedIds == null && keepsTag(tag)

  /** Returns whether to keep a message that has this `relation_id`. */
  def keeps(tag: Int, relationId: Long): Boolean =
    keepsTag(tag) &&
      (sortedIds == null || Arrays.binarySearch(sortedIds, relationId) >= 0)
}

object MessageFilter {
  val all: MessageFilter = MessageFilter(None, None)
}
