package io.sparkpgoutput.types.binary

import org.apache.spark.sql.types.{BinaryType, DataType}

import io.sparkpgoutput.types._

/**
 * bytea. The text is `\x` and two hexadecimal digits for each byte. With bytea_output escape, it is
 * the printable characters of ASCII, `\\` for a backslash and `\ooo` for other bytes.
 */
object PgBytea extends PgType("bytea") {
  override def sparkType(modifier: Int): DataType = BinaryType
  override def readsUnknown(target: DataType): Boolean = target == BinaryType

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
    if ((to - from) % 2 != 0) throw InvalidValue.malformed(name)
    var at = from
    while (at < to) {
      val byte = Ascii.hexDigit(bytes(at).toInt) << 4 | Ascii.hexDigit(bytes(at + 1).toInt)
      if (byte < 0) throw InvalidValue.malformed(name)
      value.add(byte)
      at += 2
    }
  }

  private def readEscape(bytes: Array[Byte], from: Int, to: Int, value: TextBuffer): Unit = {
    var at = from
    while (at < to) {
      val byte = bytes(at)
      if (byte < ' ' || byte > '~') throw InvalidValue.malformed(name)
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
    if (to - from < 3) throw InvalidValue.malformed(name)
    val upper = bytes(from) - '0'
    val middle = bytes(from + 1) - '0'
    val lower = bytes(from + 2) - '0'
    val fits = (upper & ~3) == 0 && ((middle | lower) & ~7) == 0
    if (!fits) throw InvalidValue.malformed(name)
    upper << 6 | middle << 3 | lower
  }
}
