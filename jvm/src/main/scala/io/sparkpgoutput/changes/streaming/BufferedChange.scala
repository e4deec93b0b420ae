package io.sparkpgoutput.changes.streaming

import java.nio.ByteBuffer

/**
 * A message of a transaction that waits for its end: a change, or a Relation that changes behind it
 * refer to.
 *
 * @param ordinal
 *   of a change that of its first row
 * @param xid
 *   of a change in a stream block that of its subtransaction
 */
final case class BufferedChange(
    position: Long,
    message: Array[Byte],
    inStream: Boolean,
    ordinal: Long,
    xid: Long
) {

  /** How many bytes it takes. */
  def size: Int = BufferedChange.HeadSize + message.length

  def write(out: ByteBuffer): Unit = {
    out.put((if (inStream) 1 else 0).toByte).putLong(position).putLong(ordinal).putLong(xid)
    out.putInt(message.length).put(message)
  }
}

object BufferedChange {

  /** Whether it was in a stream block, position, ordinal, xid, and the message's length. */
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
