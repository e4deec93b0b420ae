package io.sparkpgoutput.decode

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.types.StructType
import org.apache.spark.unsafe.types.UTF8String

import io.sparkpgoutput.errors.MalformedMessageException
import io.sparkpgoutput.protocol.{
  DecodeFailure,
  EncodedTuple,
  MessageSchema,
  MessageType,
  StreamContext,
  TextEncoding
}

/**
 * Decodes messages of pgoutput to rows of [[MessageSchema.schema]] or a part of it, in one pass
 * over the bytes. Whatever the part, the whole message is checked.
 *
 * A message is the bytes that pgoutput wrote. One of zero bytes, which PostgreSQL 13 and older send
 * where an origin was dropped, is none: it gives null. Not thread-safe.
 *
 * @param encoding
 *   the encoding of the text in the messages
 * @param required
 *   the fields that rows are to have: those of the schema or some of them, in its order; structs in
 *   it likewise
 * @param filter
 *   the messages that rows are wanted of
 */
final class MessageDecoder(
    encoding: TextEncoding,
    required: StructType = MessageSchema.schema,
    filter: MessageFilter = MessageFilter.all
) {
  private val layouts = new MessageLayouts(encoding, required, filter)

  /**
   * The row of a message, in memory that the next message's row is written to: to be copied where
   * it is kept, as Spark's operators and expressions copy what they keep.
   *
   * @param context
   *   one of [[StreamContext]]
   * @return
   *   the row; null where the filter does not keep the message
   * @throws MalformedMessageException
   *   where pgoutput cannot have written the message
   */
  def decode(message: Array[Byte], context: Int): UnsafeRow =
    if (message.length == 0) null
    else {
      val malformation = read(message, context)
      if (malformation != null) {
        throw new MalformedMessageException(malformation.describe(message))
      }
      layouts.finishRow()
    }

  /** The row; null also for a malformed message. */
  def decodeOrNull(message: Array[Byte], context: Int): UnsafeRow =
    if (message.length == 0 || read(message, context) != null) null else layouts.finishRow()

  /**
   * Begins with the cells of a tuple of the message that was decoded last. Their text is as it was
   * sent, in the encoding.
   *
   * @param field
   *   key, old or new
   * @return
   *   whether the message has it
   */
  def cells(field: Int, cells: EncodedTuple): Boolean =
    layouts.cells(field, cells)

  /** What is wrong with the message; null where nothing is. */
  def errorOrNull(message: Array[Byte], context: Int): UTF8String = {
    val malformation = if (message.length == 0) null else read(message, context)
    if (malformation == null) null else UTF8String.fromString(malformation.describe(message))
  }

  private def read(message: Array[Byte], context: Int): DecodeFailure = {
    val messageType = MessageType.of(message(0))
    if (messageType == null) layouts.unknown(message)
    else if (!messageType.inStream || context != StreamContext.UNKNOWN) {
      val withXid = messageType.inStream && context == StreamContext.INSIDE
      layouts.read(message, messageType, withXid, guessing = false)
    } else if (messageType.tag == MessageType.Tag.Message) readLogicalMessage(message, messageType)
    else {
      val without = guess(message, messageType, withXid = false)
      if (without == null) null else orElse(without, guess(message, messageType, withXid = true))
    }
  }

  /**
   * A message that may have an xid after its tag can often be read in one way only, because a
   * reading must be valid to the last byte; some readings that would be are excluded where
   * `MessageLayouts` asks for `guessing`. The reading without an xid goes first.
   */
  private def guess(message: Array[Byte], messageType: MessageType, withXid: Boolean) =
    layouts.read(message, messageType, withXid, guessing = true)

  /** Of two failed readings the one that got further tells what is wrong. */
  private def orElse(without: DecodeFailure, withXid: DecodeFailure): DecodeFailure =
    if (withXid == null) null else if (withXid.at > without.at) withXid else without

  /**
   * A logical message, of which both readings may be valid: then the one with the smaller LSN is
   * right. An xid that is taken for the flags and the upper bytes of the LSN makes that too great.
   */
  private def readLogicalMessage(message: Array[Byte], messageType: MessageType): DecodeFailure = {
    val without = guess(message, messageType, withXid = false)
    val lsnWithout = layouts.logicalMessageLsn
    val withXid = guess(message, messageType, withXid = true)
    if (without != null) orElse(without, withXid)
    else if (
      withXid == null &&
      java.lang.Long.compareUnsigned(layouts.logicalMessageLsn, lsnWithout) < 0
    ) null
    else guess(message, messageType, withXid = false)
  }
}
