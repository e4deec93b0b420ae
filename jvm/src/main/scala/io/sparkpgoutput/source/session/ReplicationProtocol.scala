package io.sparkpgoutput.source.session

import java.nio.ByteBuffer
import java.time.Instant
import java.time.temporal.ChronoUnit
import java.util.Arrays

import io.sparkpgoutput.protocol.{BigEndian, PostgresEpoch}

/**
 * The messages inside CopyData of the streaming replication protocol.
 *
 * @see PostgreSQL documentation, "Streaming Replication Protocol"
 */
object ReplicationProtocol {
  final val XLogData = 'w'
  final val Keepalive = 'k'
  final private val StatusUpdate = 'r'

  /** XLogData: the tag; Int64 start of the WAL data; Int64 end of the WAL; Int64 clock; the data. */
  def walData(message: Array[Byte]): Array[Byte] =
    Arrays.copyOfRange(message, 1 + 3 * 8, message.length)

  /** Keepalive: the tag; Int64 end of the WAL that was decoded; Int64 clock; Byte1 reply wanted. */
  def keepaliveLsn(message: Array[Byte]): Long = BigEndian.int64(message, 1)
  def wantsReply(message: Array[Byte]): Boolean = message(1 + 2 * 8) != 0

  /**
   * Standby status update: the tag; Int64 written, flushed and applied LSN; Int64 clock; Byte1 reply
   * wanted.
   *
   * @param flushed 0 stands for "not known": the server ignores it
   */
  def statusUpdate(written: Long, flushed: Long, applied: Long, askReply: Boolean): Array[Byte] =
    ByteBuffer
      .allocate(1 + 4 * 8 + 1)
      .put(StatusUpdate.toByte)
      .putLong(written)
      .putLong(flushed)
      .putLong(applied)
      .putLong(ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now) - PostgresEpoch.Micros)
      .put((if (askReply) 1 else 0).toByte)
      .array
}
