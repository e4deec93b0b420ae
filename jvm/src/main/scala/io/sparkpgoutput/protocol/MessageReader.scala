package io.sparkpgoutput.protocol

import java.lang.invoke.{MethodHandles, VarHandle}
import java.nio.ByteOrder

/**
 * Reads a message's fields one after the other, each checked against what is left.
 *
 * The first field that does not fit is kept as `malformation`; from then on nothing is left, reads
 * give 0, and the caller may go on to where it next looks at `ok`. No exception is thrown: with an
 * unknown stream context a failing first reading is ordinary.
 *
 * Integers are big-endian and unsigned but where said otherwise.
 */
final private[protocol] class MessageReader {
  import MessageReader._

  private var bytes: Array[Byte] = Array.emptyByteArray
  private var limit = 0
  private var at = 0
  private var failure: Malformation = _

  /** The number of the column that is being read, for error messages; 0 outside of columns. */
  var column = 0

  /** Begins to read a message, after its tag. */
  def start(message: Array[Byte]): Unit = {
    bytes = message
    limit = message.length
    at = 1
    column = 0
    failure = null
  }

  def message: Array[Byte] = bytes
  def position: Int = at
  def left: Int = limit - at
  def malformation: Malformation = failure
  def ok: Boolean = failure == null

  /** Goes back to a position, to read the fields from there once more. */
  def rewind(position: Int): Unit = if (ok) at = position

  def fail(
      field: Int,
      part: String,
      problem: String,
      found: Long = 0,
      wanted: Long = 0,
      position: Int = at
  ): Unit =
    if (ok) {
      failure = new Malformation(position, field, column, part, problem, found, wanted)
      limit = at
    }

  /** Whether so many bytes are left. */
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

  def uint16(field: Int, part: String = null): Int =
    if (has(2, field, part)) { at += 2; ((bytes(at - 2) & 0xff) << 8) | (bytes(at - 1) & 0xff) }
    else 0

  def int32(field: Int, part: String = null): Int =
    if (has(4, field, part)) { at += 4; Int32.get(bytes, at - 4) }
    else 0

  def uint32(field: Int, part: String = null): Long = int32(field, part) & 0xffffffffL

  def int64(field: Int, part: String = null): Long =
    if (has(8, field, part)) { at += 8; Int64.get(bytes, at - 8) }
    else 0L

  /** A byte that must be between 0 and `most`. */
  def flags(most: Int, field: Int = -1): Int = {
    val value = uint8(field, "flags")
    if (value > most) {
      fail(field, "flags", "found %d, the most is %d", value.toLong, most.toLong, at - 1)
      0
    } else value
  }

  /** The number of bytes before the NUL byte that ends a string; it is not skipped. */
  def stringLength(field: Int, part: String = null): Int = {
    var end = at
    while (end < limit && bytes(end) != 0) end += 1
    if (end == limit) {
      fail(field, part, "the NUL byte that ends it is missing")
      0
    } else end - at
  }

  /** The uint32 length of the bytes that follow, all of which are left. */
  def length(field: Int, part: String = null): Int = {
    val size = uint32(field, part)
    if (has(size, field, part)) size.toInt else 0
  }

  /** A number of things that is to be trusted only if each can have its least size. */
  def count(value: Long, leastBytes: Int, field: Int, part: String = null): Int =
    if (has(value * leastBytes, field, part)) value.toInt else 0

  def skip(size: Int): Unit = if (ok) at += size

  /** The message ends here. */
  def end(): Unit = if (at < limit) {
    fail(-1, null, if (left == 1) "1 byte left over" else "%d bytes left over", left.toLong)
  }
}

private object MessageReader {
  private val Int32: VarHandle =
    MethodHandles.byteArrayViewVarHandle(classOf[Array[Int]], ByteOrder.BIG_ENDIAN)
  private val Int64: VarHandle =
    MethodHandles.byteArrayViewVarHandle(classOf[Array[Long]], ByteOrder.BIG_ENDIAN)
}
