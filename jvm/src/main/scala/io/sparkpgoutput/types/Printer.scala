package io.sparkpgoutput.types

import java.nio.charset.StandardCharsets
import java.util.Arrays

import io.sparkpgoutput.protocol.{BigEndian, TextEncoding}

/**
 * Prints the binary values of one type as a server does with DateStyle ISO, IntervalStyle postgres,
 * bytea_output hex, extra_float_digits 1 and, unless an option says otherwise, time zone UTC.
 */
abstract class Printer {

  /** Appends the text of the value in the bytes from `from` up to `to`, in UTF-8. */
  def print(bytes: Array[Byte], from: Int, to: Int, out: TextBuffer): Unit
}

object Printer {

  /** Prints the values of a type part by part. It checks that nothing follows the last part. */
  def of(typeName: String)(print: (BinaryReader, TextBuffer) => Unit): Printer = {
    val reader = new BinaryReader(typeName)
    (bytes, from, to, out) => {
      reader.start(bytes, from, to)
      print(reader, out)
      reader.finish()
    }
  }
}

/** Prints the text inside binary values, which has the encoding of the messages. */
final class EncodedText(encoding: TextEncoding) extends Printer {
  override def print(bytes: Array[Byte], from: Int, to: Int, out: TextBuffer): Unit =
    if (encoding.isUtf8) {
      if (!TextEncoding.isValidUtf8(bytes, from, to - from)) throw invalid
      out.add(bytes, from, to)
    } else {
      val utf8 = encoding.toUtf8(bytes, from, to - from)
      if (utf8 == null) throw invalid
      out.add(utf8, 0, utf8.length)
    }

  private def invalid =
    new InvalidValue(s"has text that is not valid $encoding", "use the option encoding")
}

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

  /** Reads a number of items. So many items of at least `leastBytes` must fit into the bytes that are left. */
  def count(leastBytes: Int): Int = {
    val value = int32()
    if (value < 0 || value.toLong * leastBytes > left) throw InvalidValue.malformed(typeName)
    value
  }

  /** Skips the next part, which its size precedes, up to `position`. Returns where it begins; -1 if it is NULL. */
  def part(): Int = {
    val size = int32()
    if (size == -1) -1 else take(size)
  }

  /** Prints the next part, which its size precedes. */
  def print(printer: Printer, out: TextBuffer): Unit = {
    val from = take(int32())
    printer.print(bytes, from, at, out)
  }

  /** Checks that the value ends here. */
  def finish(): Unit = if (at != end) throw InvalidValue.malformed(typeName)
}

/** A growing text in UTF-8. An instance holds one value after another. */
final class TextBuffer {
  final private val HexDigits = "0123456789abcdef"

  /** The greatest size of an array. A longer text fails with an IndexOutOfBoundsException. */
  final private val Most = Int.MaxValue - 15L

  private var buffer = new Array[Byte](64)
  private var used = 0

  /** The text is from 0 up to `size`. Other bytes may follow. */
  def bytes: Array[Byte] = buffer
  def size: Int = used
  def clear(): Unit = used = 0

  /** Appends a byte, which is a character of ASCII or a part of another one. */
  def add(byte: Int): Unit = {
    reserve(1)
    buffer(used) = byte.toByte
    used += 1
  }

  def add(character: Char): Unit = add(character.toInt)

  def add(text: String): Unit = {
    val utf8 = text.getBytes(StandardCharsets.UTF_8)
    add(utf8, 0, utf8.length)
  }

  def add(utf8: Array[Byte], from: Int, to: Int): Unit = {
    reserve(to - from)
    System.arraycopy(utf8, from, buffer, used, to - from)
    used += to - from
  }

  /** Appends a number in decimal digits. */
  def number(value: Long): Unit = {
    reserve(20)
    if (value < 0) add('-')
    // The rest stays negative, because the least number has no positive counterpart.
    var rest = if (value < 0) value else -value
    var size = math.max(1, PowersOfTen.digits(-rest))
    var at = used + size
    used = at
    while (size > 0) {
      at -= 1
      buffer(at) = ('0' - rest % 10).toByte
      rest /= 10
      size -= 1
    }
  }

  /** Appends a number that is not negative with at least so many digits. */
  def padded(value: Long, digits: Int): Unit = {
    var zeros = digits - PowersOfTen.digits(math.max(value, 1))
    while (zeros > 0) { add('0'); zeros -= 1 }
    number(value)
  }

  /** Appends a number in units of 10^-scale, with all its digits after the point. */
  def decimal(unscaled: Long, scale: Int): Unit = {
    val one = PowersOfTen(scale)
    if (unscaled < 0 && unscaled / one == 0) add('-')
    number(unscaled / one)
    if (scale > 0) {
      add('.')
      padded((unscaled % one).abs, scale)
    }
  }

  /** Appends items, each of which `item` appends, with a separator between them. */
  def list(count: Int, separator: Char)(item: => Unit): Unit = {
    var index = 0
    while (index < count) {
      if (index > 0) add(separator)
      item
      index += 1
    }
  }

  /** Appends the four lowest bits as a hexadecimal digit in lower case. */
  def hexDigit(value: Int): Unit = add(HexDigits.charAt(value & 15))

  /** Appends text between quotes. `escape` precedes each quote in it, a backslash each backslash. */
  def quoted(utf8: Array[Byte], from: Int, to: Int, quote: Char, escape: Char): Unit = {
    add(quote)
    var at = from
    while (at < to) {
      val byte = utf8(at)
      if (byte == quote) add(escape)
      else if (byte == '\\') add('\\')
      add(byte.toInt)
      at += 1
    }
    add(quote)
  }

  /** Appends a text, in quotes if it is empty or has a byte that is true in `special`. */
  def quotedIfNeeded(text: TextBuffer, special: Array[Boolean], escape: Char): Unit = {
    val utf8 = text.bytes
    var at = 0
    while (at < text.size && !special(utf8(at) & 0xff)) at += 1
    if (text.size > 0 && at == text.size) add(utf8, 0, text.size)
    else quoted(utf8, 0, text.size, quote = '"', escape)
  }

  /** Appends what is between two quotes, without the backslash or the quote before an escaped character. */
  def unescaped(utf8: Array[Byte], from: Int, to: Int): Unit = {
    reserve(to - from)
    var at = from
    while (at < to) {
      if (utf8(at) == '\\' || utf8(at) == '"') at += 1
      buffer(used) = utf8(at)
      used += 1
      at += 1
    }
  }

  /** Appends bytes as two hexadecimal digits each, in lower case. */
  def hex(bytes: Array[Byte], from: Int, to: Int): Unit = {
    reserve(2 * (to - from))
    var at = from
    while (at < to) {
      buffer(used) = HexDigits.charAt((bytes(at) >> 4) & 15).toByte
      buffer(used + 1) = HexDigits.charAt(bytes(at) & 15).toByte
      used += 2
      at += 1
    }
  }

  override def toString: String = new String(buffer, 0, used, StandardCharsets.UTF_8)

  private def reserve(size: Int): Unit =
    if (size > buffer.length - used) {
      val wanted = math.max(2L * buffer.length, used.toLong + size)
      buffer = Arrays.copyOf(buffer, math.min(wanted, Most).toInt)
    }
}
