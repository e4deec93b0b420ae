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

  /** What stands before the message's own fields: the tag, and in a stream block the xid. */
  def headSize: Int = if (inStream) 5 else 1
}
