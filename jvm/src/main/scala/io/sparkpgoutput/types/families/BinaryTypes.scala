package io.sparkpgoutput.types.families

import org.apache.spark.sql.types.{BinaryType, BooleanType, DataType}

import io.sparkpgoutput.protocol.BigEndian
import io.sparkpgoutput.types._

/**
 * bytea. The text is `\x` and two hexadecimal digits for each byte. With bytea_output escape, it is
 * the printable characters of ASCII, `\\` for a backslash and `\ooo` for other bytes.
 */
object PgBytea extends PgType("bytea") {
  override def sparkType(modifier: Int): DataType = BinaryType

  override def conversion(target: DataType, options: ConversionOptions): Option[Conversion] =
    Option.when(target == BinaryType)(new Conversion {
      private val value = new TextBuffer

      override def fromText(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit = {
        value.clear()
        if (to - from >= 2 && bytes(from) == '\\' && bytes(from + 1) == 'x') {
          readHex(bytes, from + 2, to, value)
        } else readEscape(bytes, from, to, value)
        out.write(value.bytes, 0, value.size)
      }

      override def fromBinary(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit =
        out.write(bytes, from, to - from)
    })

  override def printer(options: ConversionOptions): Printer = (bytes, from, to, out) => {
    if (to - from > MostPrinted) throw new InvalidValue("is too long to be text", "use BINARY")
    out.add("\\x")
    out.hex(bytes, from, to)
  }

  /** A server does not print longer values either. */
  final private val MostPrinted = 0x1fffffff

  private def readHex(bytes: Array[Byte], from: Int, to: Int, value: TextBuffer): Unit = {
    if ((to - from) % 2 != 0) throw malformed
    var at = from
    while (at < to) {
      val byte = Ascii.hexDigit(bytes(at).toInt) << 4 | Ascii.hexDigit(bytes(at + 1).toInt)
      if (byte < 0) throw malformed
      value.add(byte)
      at += 2
    }
  }

  private def readEscape(bytes: Array[Byte], from: Int, to: Int, value: TextBuffer): Unit = {
    var at = from
    while (at < to) {
      val byte = bytes(at)
      if (byte < ' ' || byte > '~') throw malformed
      else if (byte != '\\') {
        value.add(byte.toInt)
        at += 1
      } else if (at + 1 < to && bytes(at + 1) == '\\') {
        value.add('\\')
        at += 2
      } else {
        value.add(readOctal(bytes, at + 1, to))
        at += 4
      }
    }
  }

  private def readOctal(bytes: Array[Byte], from: Int, to: Int): Int = {
    if (to - from < 3) throw malformed
    val upper = bytes(from) - '0'
    val middle = bytes(from + 1) - '0'
    val lower = bytes(from + 2) - '0'
    val fits = (upper & ~3) == 0 && ((middle | lower) & ~7) == 0
    if (!fits) throw malformed
    upper << 6 | middle << 3 | lower
  }
}

/**
 * bit and varbit. The text is 0s and 1s. The binary value is an int32, the number of bits, and the
 * bits from the highest of each byte on (`varbit_send`). A single bit can be a BOOLEAN.
 */
final class PgBits private (name: String) extends PgType(name) {
  override def modifierText(modifier: Int): String = s"($modifier)"

  override def conversion(target: DataType, options: ConversionOptions): Option[Conversion] =
    Option.when(target == BooleanType)(new Conversion {
      override def fromText(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit = {
        requireSingle(to - from)
        if (bytes(from) != '0' && bytes(from) != '1') throw malformed
        out.write(bytes(from) == '1')
      }

      override def fromBinary(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit = {
        requireSingle(readSize(bytes, from, to))
        out.write(bit(bytes, from, 0))
      }
    })

  override def printer(options: ConversionOptions): Printer = (bytes, from, to, out) => {
    val size = readSize(bytes, from, to)
    var index = 0
    while (index < size) {
      out.add(if (bit(bytes, from, index)) '1' else '0')
      index += 1
    }
  }

  private def requireSingle(size: Int): Unit =
    if (size != 1) throw new InvalidValue("is not a single bit", "use STRING")

  private def readSize(bytes: Array[Byte], from: Int, to: Int): Int = {
    if (to - from < 4) throw malformed
    val size = BigEndian.int32(bytes, from)
    if (size < 0 || (size + 7L) / 8 != to - from - 4) throw malformed
    size
  }

  private def bit(bytes: Array[Byte], from: Int, index: Int): Boolean =
    (bytes(from + 4 + index / 8) & (0x80 >> index % 8)) != 0
}

object PgBits {
  val Bit = new PgBits("bit")
  val Varbit = new PgBits("varbit")
}

/** bool. The text is `t` or `f`. This also reads true, false, 1 and 0, as a server does. */
object PgBoolean extends PgType("bool") {
  override def sparkType(modifier: Int): DataType = BooleanType

  override def conversion(target: DataType, options: ConversionOptions): Option[Conversion] =
    Option.when(target == BooleanType)(new Conversion {
      override def fromText(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit =
        out.write(parse(bytes, from, to))

      override def fromBinary(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit =
        out.write(read(bytes, from, to))
    })

  override def printer(options: ConversionOptions): Printer = (bytes, from, to, out) =>
    out.add(if (read(bytes, from, to)) 't' else 'f')

  private def read(bytes: Array[Byte], from: Int, to: Int): Boolean = {
    InvalidValue.requireSize(name, to - from, 1)
    bytes(from) != 0
  }

  private def parse(bytes: Array[Byte], from: Int, to: Int): Boolean =
    if (to - from == 1) {
      bytes(from) match {
        case 't' | '1' => true
        case 'f' | '0' => false
        case _         => throw malformed
      }
    } else if (Ascii.equal(bytes, from, to, "true")) true
    else if (Ascii.equal(bytes, from, to, "false")) false
    else throw malformed
}

/** uuid: 16 bytes, printed as `a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11`. */
object PgUuid extends PgType("uuid") {
  override def printer(options: ConversionOptions): Printer = (bytes, from, to, out) => {
    InvalidValue.requireSize(name, to - from, 16)
    out.hex(bytes, from, from + 4)
    out.add('-')
    out.hex(bytes, from + 4, from + 6)
    out.add('-')
    out.hex(bytes, from + 6, from + 8)
    out.add('-')
    out.hex(bytes, from + 8, from + 10)
    out.add('-')
    out.hex(bytes, from + 10, to)
  }
}
