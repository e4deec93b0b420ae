package io.sparkpgoutput.lake.apply

import io.sparkpgoutput.protocol.{BigEndian, PostgresEpoch}

/**
 * The beginning of a transaction: its Begin message, and its Origin message if there is one.
 *
 * @param bytes
 *   the messages, one after the other
 */
final class TransactionStart(val bytes: Array[Byte]) {
  import TransactionStart._

  /** The time of the commit, in microseconds since 1970. */
  def timestamp: Long = BigEndian.int64(bytes, 1 + 8) + PostgresEpoch.Micros

  def xid: Long = BigEndian.int32(bytes, BeginSize - 4) & 0xffffffffL

  /** The name of the replication origin in UTF-8; null if there is none. */
  def origin: Array[Byte] =
    if (bytes.length == BeginSize) null
    else bytes.slice(BeginSize + OriginHead, bytes.length - 1)

  def messages: Seq[Array[Byte]] = {
    val (begin, origin) = bytes.splitAt(BeginSize)
    Seq(begin, origin).filter(_.nonEmpty)
  }
}

object TransactionStart {

  /** Begin: Int64 LSN of the commit; Int64 timestamp of the commit; Int32 xid. */
  final private val BeginSize = 1 + 8 + 8 + 4

  /** Origin: Int64 LSN of the commit at the origin; String name, which a zero byte ends. */
  final private val OriginHead = 1 + 8
}
