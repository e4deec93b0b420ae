package io.sparkpgoutput.changes.transactions

/**
 * A Relation or Type message.
 *
 * @param oid
 *   of the table or type
 * @param inStream
 *   whether it was sent between Stream Start and Stream Stop
 */
final case class SchemaMessage(
    oid: Long,
    position: Long,
    message: Array[Byte],
    inStream: Boolean
) {

  /** Tells a Type message from a Relation message. */
  def isType: Boolean = message(0) == 'Y'

  /** What stands before the message's own fields: the tag, and in a stream block the xid. */
  def headSize: Int = if (inStream) 5 else 1
}

object SchemaMessage {

  /** Tells if a message is a Relation or Type message. */
  def is(message: Array[Byte]): Boolean =
    message.length > 0 && (message(0) == 'R' || message(0) == 'Y')
}
