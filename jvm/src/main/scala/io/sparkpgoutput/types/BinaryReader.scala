package io.sparkpgoutput.types

import io.sparkpgoutput.protocol.BigEndian

/**
 * Reads the parts of a binary value. It checks each part against the bytes that are left.
 *
 * An instance reads one value after another.
 */
final class BinaryReader(typeName: String) {
  private var at = 0
  private var end = 0

  var bytes: Array[Byte] = Array.emptyByteArray

  def start(bytes: Array[Byte], from: Int, to: Int): Unit = {
    this.bytes = bytes
    at = from
    end = to
  }

  def position: Int = at
  def left: Int = end - at

  def uint8(): Int = bytes(take(1)) & 0xff
  def int16(): Int = BigEndian.int16(bytes, take(2)).toInt
  def uint16(): Int = int16() & 0xffff
  def int32(): Int = BigEndian.int32(bytes, take(4))
  def uint32(): Long = int32() & 0xffffffffL
  def int64(): Long = BigEndian.int64(bytes, take(8))

  /** Skips so many bytes and returns the position of the first one. */
  def take(size: Int): Int = {
    if (size < 0 || size > left) throw InvalidValue.malformed(typeName)
    at += size
    at - size
  }

  /** Reads a number of items. It is valid only if each item has room for its least size. */
  def count(leastBytes: Int): Int = {
    val value = int32()
    if (value < 0 || value.toLong * leastBytes > left) throw InvalidValue.malformed(typeName)
    value
  }

  /** Checks that the value ends here. */
  def finish(): Unit = if (at != end) throw InvalidValue.malformed(typeName)
}
