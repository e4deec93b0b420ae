package io.sparkpgoutput.changes.streaming

import java.nio.ByteBuffer

/**
 * A message of an open transaction: a change, or a Relation message that later changes need.
 *
 * @param ordinal the ordinal of the first row of a change
 * @param xid the xid of the subtransaction, if a change is in a stream block
 */
final case class BufferedChange(
    position: Long,
    message: Array[Byte],
    inStream: Boolean,
    ordinal: Long,
    xid: Long
) {

  /** The number of bytes that [[write]] writes. */
  def size: Int = BufferedChange.HeadSize + message.length

  def write(out: ByteBuffer): Unit = {
    out.put((if (inStream) 1 else 0).toByte).putLong(position).putLong(ordinal).putLong(xid)
    out.putInt(message.length).put(message)
  }
}

object BufferedChange {

  /** The bytes of inStream, position, ordinal, xid and the length of the message. */
  final private val HeadSize = 1 + 3 * 8 + 4

  def read(in: ByteBuffer): BufferedChange = {
    val inStream = in.get() != 0
    val position = in.getLong()
    val ordinal = in.getLong()
    val xid = in.getLong()
    val message = new Array[Byte](in.getInt())
    in.get(message)
    BufferedChange(position, message, inStream, ordinal, xid)
  }
}
