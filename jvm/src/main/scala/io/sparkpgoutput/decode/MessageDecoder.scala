package io.sparkpgoutput.decode

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.types.UTF8String

import io.sparkpgoutput.errors.MalformedMessageException
import io.sparkpgoutput.protocol._

/**
 * Decodes messages of pgoutput to rows of [[MessageSchema.schema]], or a part of it, in one pass
 * over the bytes. It checks the whole message, whichever part is selected.
 *
 * A message is the bytes that pgoutput wrote. PostgreSQL 13 and older send zero bytes if an origin
 * was dropped: that gives null. A decoder is not thread-safe.
 */
final class MessageDecoder(
    encoding: TextEncoding,
    selection: FieldSelection = FieldSelection.All,
    filter: MessageFilter = MessageFilter.all
) extends MessageLayouts(encoding, selection, filter) {

  /**
   * Returns the row of a message. The row of the next message overwrites it. To keep the row, copy
   * it, as Spark's operators and expressions do.
   *
   * @param context one of [[StreamContext]]
   * @return the row; null if the filter drops the message
   * @throws MalformedMessageException if pgoutput cannot have written the message
   */
  def decode(message: Array[Byte], context: Int): UnsafeRow =
    if (message.length == 0) null
    else {
      val failure = read(message, context)
      if (failure != null) {
        throw new MalformedMessageException(failure.describe(message))
      }
      finishRow()
    }

  /** The row; null also for a malformed message. */
  def decodeOrNull(message: Array[Byte], context: Int): UnsafeRow =
    if (message.length == 0 || read(message, context) != null) null else finishRow()

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
    } else if (messageType.tag == MessageType.Tag.Message) readLogicalMessage(message, messageType)
    else {
      val without = guess(message, messageType, withXid = false)
      if (without == null) null else orElse(without, guess(message, messageType, withXid = true))
    }
  }

  /**
   * Reads a message that may have an xid after its tag. It tries the reading without an xid first,
   * and then the reading with one. Often only one reading is valid to the last byte. If
   * `inferringContext` is set, [[MessageLayouts]] refuses more wrong readings.
   */
  private def guess(message: Array[Byte], messageType: MessageType, withXid: Boolean) =
    read(message, messageType, withXid, inferringContext = true)

  /** If both readings failed, the one that got further tells what is wrong. */
  private def orElse(without: DecodeFailure, withXid: DecodeFailure): DecodeFailure =
    if (withXid == null) null else if (withXid.at > without.at) withXid else without

  /**
   * Reads a logical message. Both readings of it may be valid. Then the reading with the smaller
   * LSN is right, because a reading that takes an xid for the flags and the upper bytes of the LSN
   * has an LSN that is too great.
   */
  private def readLogicalMessage(message: Array[Byte], messageType: MessageType): DecodeFailure = {
    val without = guess(message, messageType, withXid = false)
    val lsnWithout = logicalMessageLsn
    val withXid = guess(message, messageType, withXid = true)
    if (without != null) orElse(without, withXid)
    else if (
      withXid == null &&
      java.lang.Long.compareUnsigned(logicalMessageLsn, lsnWithout) < 0
    ) null
    else guess(message, messageType, withXid = false)
  }
}
