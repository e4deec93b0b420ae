package io.sparkpgoutput.lake.batch

import io.sparkpgoutput.protocol.BeginMessage

/**
 * The beginning of a transaction: its Begin message, and its Origin message if there is one.
 *
 * @param bytes the messages, one after the other
 */
final class TransactionStart(val bytes: Array[Byte]) {
  import TransactionStart._

  /** The time of the commit, in microseconds since 1970. */
  def timestamp: Long = BeginMessage.timestamp(bytes)

  def xid: Long = BeginMessage.xid(bytes)

  /** The name of the replication origin in UTF-8; null if there is none. */
  def origin: Array[Byte] =
    if (bytes.length == BeginMessage.Size) null
    else bytes.slice(BeginMessage.Size + OriginHead, bytes.length - 1)

  def messages: Seq[Array[Byte]] = {
    val (begin, origin) = bytes.splitAt(BeginMessage.Size)
    Seq(begin, origin).filter(_.nonEmpty)
  }
}

object TransactionStart {

  /** Origin: Int64 LSN of the commit at the origin; String name, which a zero byte ends. */
  final private val OriginHead = 1 + 8
}
