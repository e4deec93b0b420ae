package io.sparkpgoutput.changes.transactions

import io.sparkpgoutput.protocol.{BigEndian, MessageType}

/**
 * A Relation or Type message.
 *
 * @param inStream true if it was sent between Stream Start and Stream Stop
 */
final case class SchemaMessage(oid: Long, position: Long, message: Array[Byte], inStream: Boolean) {

  /** Tells a Type message from a Relation message. */
  def isType: Boolean = message(0) == MessageType.Tag.Type

  /** The bytes before the fields of the message: the tag, and the xid in a stream block. */
  def headSize: Int = if (inStream) 5 else 1
}

object SchemaMessage {

  /** A message that was not sent between Stream Start and Stream Stop. Its first field is the oid. */
  def outsideStream(message: Array[Byte], position: Long = 0): SchemaMessage =
    SchemaMessage(BigEndian.uint32(message, 1), position, message, inStream = false)

  /** Tells if a message is a Relation or Type message. */
  def is(message: Array[Byte]): Boolean =
    message.length > 0 &&
      (message(0) == MessageType.Tag.Relation || message(0) == MessageType.Tag.Type)
}
