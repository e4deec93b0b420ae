package io.sparkpgoutput.protocol

import java.nio.ByteOrder

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.array.ByteArrayMethods.{
  MAX_ROUNDED_ARRAY_LENGTH,
  roundNumberOfBytesToNearestWord
}

/**
 * Writes the row of a message in Spark's own binary format, front to back.
 *
 * The row, the structs and the arrays in it are alike: a head with null bits and one 8-byte slot a
 * member, then the members of variable size. A member of variable size is appended and its offset
 * from the head and its size go to the slot. The methods take the position of the head that a slot
 * belongs to.
 *
 * @see
 *   `UnsafeRow`, `UnsafeArrayData`
 */
final private[protocol] class MessageRow(fields: Int) {
  import MessageRow._

  private var buffer = new Array[Byte](FirstSize)
  private var end = 0

  /** The head of a row whose fields are all NULL. */
  private val allNull = {
    val head = new Array[Byte](structHead(fields))
    Platform.putLong(head, address(0), (1L << fields) - 1)
    head
  }

  /** Begins a row, all of its fields NULL. */
  def start(): Unit = {
    System.arraycopy(allNull, 0, buffer, 0, allNull.length)
    end = allNull.length
  }

  /** The row, in memory of its own, so that it stays right wherever it is kept. */
  def finish(): UnsafeRow = {
    val row = new UnsafeRow(fields)
    if (end < LargeRow) row.pointTo(java.util.Arrays.copyOf(buffer, end), end)
    else { // copying it once more would cost more than a new buffer
      row.pointTo(buffer, end)
      buffer = new Array[Byte](FirstSize)
    }
    row
  }

  // The fields of the row itself.

  def setLong(field: Int, value: Long): Unit = {
    Platform.putLong(buffer, address(slot(0, field)), value)
    setNotNull(field)
  }

  def setBoolean(field: Int, value: Boolean): Unit = {
    Platform.putBoolean(buffer, address(slot(0, field)), value)
    setNotNull(field)
  }

  def setBytes(field: Int, bytes: Array[Byte], from: Int, size: Int): Unit = {
    putBytes(0, slot(0, field), bytes, from, size)
    setNotNull(field)
  }

  /** The field's value is what its slot points to. */
  def setNotNull(field: Int): Unit =
    Platform.putLong(buffer, address(0), Platform.getLong(buffer, address(0)) & ~(1L << field))

  /** The struct or array at `head`, which ends here. */
  def setNested(field: Int, head: Int): Unit = {
    closeNested(0, slot(0, field), head)
    setNotNull(field)
  }

  // Structs and arrays in it, all members not NULL at first.

  /** Begins a struct; returns the position of its head. */
  def openStruct(members: Int): Int = append(structHead(members).toLong)

  /** Begins an array of variable-size or 8-byte elements; returns the position of its head. */
  def openArray(elements: Int): Int = {
    val head = append(8L + nullBits(elements) + 8L * elements)
    Platform.putLong(buffer, address(head), elements.toLong)
    head
  }

  /** The slot of a member of the struct at `head`. */
  def slot(head: Int, member: Int): Int = head + 8 + 8 * member

  /** The slot of the first element of the array at `head`; the others follow, 8 bytes each. */
  def firstSlot(head: Int, elements: Int): Int = head + 8 + nullBits(elements)

  def setNullMember(head: Int, member: Int): Unit = setNullBit(address(head), member)

  def setNullElement(head: Int, element: Int): Unit =
    setNullBit(address(head + 8 + (element >> 6) * 8), element & 63)

  private def setNullBit(word: Long, bit: Int): Unit =
    Platform.putLong(buffer, word, Platform.getLong(buffer, word) | 1L << bit)

  def putLong(slot: Int, value: Long): Unit = Platform.putLong(buffer, address(slot), value)
  def putInt(slot: Int, value: Int): Unit = Platform.putInt(buffer, address(slot), value)
  def putBoolean(slot: Int, value: Boolean): Unit =
    Platform.putBoolean(buffer, address(slot), value)

  /** Appends bytes, which `slot` then points to. */
  def putBytes(head: Int, slot: Int, bytes: Array[Byte], from: Int, size: Int): Unit = {
    val start = appendBytes(bytes, from, size)
    point(head, slot, start, size)
  }

  /**
   * Appends text, which `slot` then points to, and tells whether it is ASCII. Most texts are short:
   * whole words are copied and checked in one go where the source has bytes enough after the text.
   */
  def putText(head: Int, slot: Int, text: Array[Byte], from: Int, size: Int): Boolean = {
    val padded = roundNumberOfBytesToNearestWord(size)
    if (size > ShortText || from + padded > text.length) {
      putBytes(head, slot, text, from, size)
      isAscii(text, from, size)
    } else {
      reserve(padded.toLong)
      var bits = 0L
      var i = 0
      while (i < size) {
        var word = Platform.getLong(text, address(from + i))
        if (i + 8 > size) word &= firstBytes(size - i)
        Platform.putLong(buffer, address(end + i), word)
        bits |= word
        i += 8
      }
      point(head, slot, end, size)
      end += padded
      (bits & NotAscii) == 0
    }
  }

  /** Appends room for bytes that are given one by one, which `slot` then points to. */
  def openBytes(head: Int, slot: Int, size: Int): Int = {
    val start = append(roundNumberOfBytesToNearestWord(size).toLong)
    point(head, slot, start, size)
    start
  }

  def putByte(position: Int, value: Int): Unit = buffer(position) = value.toByte

  /** Ends the struct or array at `nested`; `slot` then points to it. */
  def closeNested(head: Int, slot: Int, nested: Int): Unit = point(head, slot, nested, end - nested)

  private def point(head: Int, slot: Int, start: Int, size: Int): Unit =
    Platform.putLong(buffer, address(slot), (start - head).toLong << 32 | size)

  private def appendBytes(bytes: Array[Byte], from: Int, size: Int): Int = {
    val start = end
    val padded = roundNumberOfBytesToNearestWord(size)
    reserve(padded.toLong)
    if (padded > size) Platform.putLong(buffer, address(start + padded - 8), 0L)
    System.arraycopy(bytes, from, buffer, start, size)
    end += padded
    start
  }

  /** Appends zeros, a multiple of 8 of them; returns where they begin. */
  private def append(size: Long): Int = {
    val start = end
    reserve(size)
    end += size.toInt
    var position = start
    while (position < end) {
      Platform.putLong(buffer, address(position), 0L)
      position += 8
    }
    start
  }

  private def reserve(size: Long): Unit = if (size > buffer.length - end) grow(size)

  private def grow(size: Long): Unit = {
    val needed = end + size
    if (needed > MAX_ROUNDED_ARRAY_LENGTH) {
      throw new UnsupportedOperationException(
        s"A decoded message needs a row of at least $needed bytes, more than Spark's rows can have"
      )
    }
    val wanted = math.min(math.max(2L * buffer.length, needed), MAX_ROUNDED_ARRAY_LENGTH.toLong)
    buffer = java.util.Arrays.copyOf(buffer, wanted.toInt)
  }
}

private object MessageRow {
  private val FirstSize = 4096

  private val ShortText = 128
  final private val NotAscii = 0x8080808080808080L

  /** From here on a row takes the buffer with it, which is never more than twice its size. */
  private val LargeRow = 1 << 20

  private def address(position: Int): Long = Platform.BYTE_ARRAY_OFFSET.toLong + position

  private def isAscii(text: Array[Byte], from: Int, size: Int): Boolean = {
    val end = from + size
    var at = from
    while (at + 8 <= end && (Platform.getLong(text, address(at)) & NotAscii) == 0) at += 8
    while (at < end && text(at) >= 0) at += 1
    at == end
  }

  /** A mask of the first bytes, 1 to 7, of a word as it is in memory. */
  private def firstBytes(size: Int): Long =
    if (LittleEndian) -1L >>> (64 - 8 * size) else -1L << (64 - 8 * size)

  private val LittleEndian = ByteOrder.nativeOrder == ByteOrder.LITTLE_ENDIAN

  private def nullBits(members: Int): Int = ((members + 63) >> 6) << 3
  private def structHead(members: Int): Int = nullBits(members) + 8 * members
}
