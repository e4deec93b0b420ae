package io.sparkpgoutput.protocol

/**
 * One of the 19 messages of pgoutput, protocol versions 1 to 4.
 *
 * @param tag
 *   the message's first byte
 * @param name
 *   its name in the column `type`
 * @param inStream
 *   whether it can stand between Stream Start and Stream Stop, where the xid of its transaction
 *   follows the tag
 * @see
 *   PostgreSQL documentation, "Logical Replication Message Formats"; `LogicalRepMsgType` in
 *   `logicalproto.h`
 */
final class MessageType private (val tag: Char, val name: String, val inStream: Boolean) {
  val nameBytes: Array[Byte] = name.getBytes("US-ASCII")
}

object MessageType {

  /** In the documentation's order. */
  val all: Seq[MessageType] = Seq(
    outside('B', "BEGIN"),
    either('M', "MESSAGE"),
    outside('C', "COMMIT"),
    outside('O', "ORIGIN"),
    either('R', "RELATION"),
    either('Y', "TYPE"),
    either('I', "INSERT"),
    either('U', "UPDATE"),
    either('D', "DELETE"),
    either('T', "TRUNCATE"),
    outside('S', "STREAM_START"),
    outside('E', "STREAM_STOP"),
    outside('c', "STREAM_COMMIT"),
    outside('A', "STREAM_ABORT"),
    outside('b', "BEGIN_PREPARE"),
    outside('P', "PREPARE"),
    outside('K', "COMMIT_PREPARED"),
    outside('r', "ROLLBACK_PREPARED"),
    outside('p', "STREAM_PREPARE")
  )

  private val byTag: Array[MessageType] = {
    val types = new Array[MessageType](256)
    all.foreach(messageType => types(messageType.tag.toInt) = messageType)
    types
  }

  /** The type of a message that begins with this byte; null where there is none. */
  def of(tag: Byte): MessageType = byTag(tag & 0xff)

  private def outside(tag: Char, name: String) = new MessageType(tag, name, inStream = false)
  private def either(tag: Char, name: String) = new MessageType(tag, name, inStream = true)
}
