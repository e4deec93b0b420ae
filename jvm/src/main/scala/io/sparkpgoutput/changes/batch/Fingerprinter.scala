package io.sparkpgoutput.changes.batch

import java.util.zip.CRC32C

/** Computes the fingerprint of messages. */
final class Fingerprinter {
  private val crc = new CRC32C
  private var count = 0L
  private var positions = 0L

  /** The number of messages so far. */
  def messages: Long = count

  def add(position: Long, message: Array[Byte]): Unit = {
    count += 1
    positions = positions * 31 + position
    crc.update(message, 0, message.length)
  }

  def result: Fingerprint = Fingerprint(count, positions, crc.getValue)
}

/** Shows if messages that are read twice were the same. */
final case class Fingerprint(messages: Long, positions: Long, bytes: Long)
