package io.sparkpgoutput.lake.queue

import java.nio.ByteBuffer

import io.sparkpgoutput.protocol.{BeginMessage, BigEndian, MessageType, PostgresEpoch}

/**
 * The Commit message by which a queue ends a transaction: Int8 flags; Int64 LSN of the commit; Int64 end LSN;
 * Int64 time of the commit.
 */
private[queue] object CommitEntry {
  final private val Size = 1 + 1 + 8 + 8 + 8

  /** The Commit message that belongs to a Begin message. */
  def of(begin: Array[Byte], end: Long): Array[Byte] =
    ByteBuffer
      .allocate(Size)
      .put(MessageType.Tag.Commit.toByte)
      .put(0: Byte)
      .putLong(BeginMessage.lsn(begin))
      .putLong(end)
      .putLong(BeginMessage.timestamp(begin) - PostgresEpoch.Micros)
      .array

  def end(message: Array[Byte]): Long = BigEndian.int64(message, 1 + 1 + 8)

  /** In microseconds since 1970. */
  def timestamp(message: Array[Byte]): Long =
    BigEndian.int64(message, 1 + 1 + 8 + 8) + PostgresEpoch.Micros
}
