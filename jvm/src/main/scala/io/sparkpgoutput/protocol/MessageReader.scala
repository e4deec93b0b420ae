package io.sparkpgoutput.protocol

import java.lang.invoke.{MethodHandles, VarHandle}
import java.nio.ByteOrder
import java.util.{HexFormat, Locale}

/**
 * Reads the fields of a message one after the other, and checks each against the bytes that are left.
 *
 * The reader keeps the first field that does not fit as `failure`. From then on nothing is left and
 * reads give 0, so the caller may go on and look at `ok` later. The reader throws no
 * exception, because with an unknown stream context the first reading of a message often fails.
 *
 * Integers are big-endian and unsigned, unless said otherwise.
 */
final class MessageReader {
  import MessageReader._

  private val copy = new Array[Byte](CopiedSize)
  private var bytes = copy
  private var limit = 0
  private var at = 0
  private var firstFailure: DecodeFailure = _
  private var ascii = false

  /** The number of the column that is being read, for error messages; 0 outside of columns. */
  var column = 0

  /**
   * Begins to read a message, after its tag.
   *
   * Small messages, which most are, are copied. To store a reference to each new array would cost
   * more: the garbage collector records each reference from an old object, such as the decoder, to a
   * young one.
   */
  def start(message: Array[Byte]): Unit = {
    limit = message.length
    if (limit > CopiedSize) bytes = message
    else {
      System.arraycopy(message, 0, copy, 0, limit)
      if (bytes ne copy) bytes = copy
    }
    at = 1
    column = 0
    firstFailure = null
    ascii = false
  }

  /** The message, from 0 to `end`. */
  def message: Array[Byte] = bytes
  def end: Int = limit
  def position: Int = at
  def left: Int = limit - at
  def failure: DecodeFailure = firstFailure
  def ok: Boolean = firstFailure == null

  /** Goes to a position, to read the fields from there. */
  def moveTo(position: Int): Unit = if (ok) at = position

  def fail(
      field: Int,
      part: String,
      problem: String,
      found: Long = 0,
      wanted: Long = 0,
      position: Int = at
  ): Unit =
    if (ok) {
      firstFailure = new DecodeFailure(position, field, column, part, problem, found, wanted)
      limit = at
    }

  /** Returns whether so many bytes are left. */
  private def has(size: Long, field: Int, part: String): Boolean = {
    val enough = size <= limit - at
    if (!enough) {
      val problem = if (size == 1) "need 1 byte, got 0" else "need %2$d bytes, got %1$d"
      fail(field, part, problem, found = left.toLong, wanted = size)
    }
    enough
  }

  def uint8(field: Int, part: String = null): Int =
    if (has(1, field, part)) { at += 1; bytes(at - 1) & 0xff }
    else 0

  def uint16(field: Int, part: String): Int =
    if (has(2, field, part)) { at += 2; BigEndian.int16(bytes, at - 2) & 0xffff }
    else 0

  def int32(field: Int, part: String): Int =
    if (has(4, field, part)) { at += 4; BigEndian.int32(bytes, at - 4) }
    else 0

  def uint32(field: Int, part: String = null): Long = int32(field, part) & 0xffffffffL

  def int64(field: Int): Long =
    if (has(8, field, null)) { at += 8; BigEndian.int64(bytes, at - 8) }
    else 0L

  /** A byte that must be between 0 and `most`. */
  def flags(most: Int, field: Int = -1): Int = {
    val value = uint8(field, "flags")
    if (value > most) {
      fail(field, "flags", "found %d, expected at most %d", value.toLong, most.toLong, at - 1)
      0
    } else value
  }

  /** The number of bytes before the NUL byte that ends a string; it is not skipped. */
  def stringLength(field: Int, part: String): Int = {
    var end = at
    while (end < limit && bytes(end) != 0) end += 1
    if (end == limit) {
      fail(field, part, "the NUL byte that ends it is missing")
      0
    } else end - at
  }

  /** The uint32 length of the bytes that follow. It is valid only if so many bytes are left. */
  def length(field: Int, part: String = null): Int = {
    val size = uint32(field, part)
    if (has(size, field, part)) size.toInt else 0
  }

  /** A number of items. It is valid only if the bytes that are left have room for so many of `leastBytes` each. */
  def count(value: Long, leastBytes: Int, field: Int, part: String = null): Int =
    if (has(value * leastBytes, field, part)) value.toInt else 0

  /**
   * Finds out whether all bytes that are left are ASCII. In a tuple they mostly are, including the
   * lengths between the texts. One look at all of them is much cheaper than one at each text.
   */
  def lookAhead(): Unit = if (!ascii) ascii = TextEncoding.isAscii(bytes, at, limit)

  /** Returns whether `lookAhead` found only ASCII. It is false if `lookAhead` was not called. */
  def restIsAscii: Boolean = ascii

  def skip(size: Int): Unit = if (ok) at += size

  /** Fails if bytes are left over. */
  def finish(): Unit = if (at < limit) {
    fail(-1, null, if (left == 1) "1 byte left over" else "%d bytes left over", left.toLong)
  }
}

private object MessageReader {
  private val CopiedSize = 4096
}

/**
 * The place and the cause of a failed reading of a message.
 *
 * It makes no text until it is described: with an unknown stream context the first reading of a
 * message often fails and the second is right.
 *
 * @param at offset of the failing field, from 0, the tag included
 * @param field ordinal of the field in [[MessageSchema]]
 * @param column number of the column, from 1; 0 outside of columns
 * @param part the part of the field; null for all of it
 * @param problem a `String.format` pattern
 * @param found the pattern's numbers
 */
final class DecodeFailure(
    val at: Int,
    field: Int,
    column: Int,
    part: String,
    problem: String,
    found: Long,
    wanted: Long
) {

  /**
   * For example `INSERT at byte 17 (new, column 3): need 4 bytes, got 2; message of 19 bytes: 49…`.
   */
  def describe(message: Array[Byte]): String = {
    val messageType = MessageType.of(message(0))
    val name = if (messageType == null) "unknown message" else messageType.name
    val place = Seq(
      Option.when(field >= 0)(MessageSchema.schema(field).name),
      Option.when(column > 0)(s"column $column"),
      Option(part)
    ).flatten.mkString(", ")
    val where = if (place.isEmpty) "" else s" ($place)"
    val shown = HexFormat.of.formatHex(message.take(ExcerptBytes))
    val more = if (message.length > ExcerptBytes) "…" else ""
    s"$name at byte $at$where: ${problem.formatLocal(Locale.ROOT, found, wanted)}; " +
      s"message of ${message.length} bytes: $shown$more"
  }

  final private val ExcerptBytes = 32
}

/** Reads integers as PostgreSQL sends them. The methods check the array's bounds only. */
object BigEndian {
  private val Int16: VarHandle =
    MethodHandles.byteArrayViewVarHandle(classOf[Array[Short]], ByteOrder.BIG_ENDIAN)
  private val Int32: VarHandle =
    MethodHandles.byteArrayViewVarHandle(classOf[Array[Int]], ByteOrder.BIG_ENDIAN)
  private val Int64: VarHandle =
    MethodHandles.byteArrayViewVarHandle(classOf[Array[Long]], ByteOrder.BIG_ENDIAN)

  def int16(bytes: Array[Byte], at: Int): Short = Int16.get(bytes, at)
  def int32(bytes: Array[Byte], at: Int): Int = Int32.get(bytes, at)
  def uint32(bytes: Array[Byte], at: Int): Long = int32(bytes, at) & 0xffffffffL
  def int64(bytes: Array[Byte], at: Int): Long = Int64.get(bytes, at)
}
