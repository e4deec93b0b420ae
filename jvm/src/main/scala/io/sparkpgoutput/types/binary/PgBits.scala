package io.sparkpgoutput.types.binary

import org.apache.spark.sql.types.{BooleanType, DataType}

import io.sparkpgoutput.protocol.BigEndian
import io.sparkpgoutput.types._

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
        bytes(from) match {
          case '0' => out.write(false)
          case '1' => out.write(true)
          case _   => throw InvalidValue.malformed(name)
        }
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
    if (to - from < 4) throw InvalidValue.malformed(name)
    val size = BigEndian.int32(bytes, from)
    if (size < 0 || (size + 7L) / 8 != to - from - 4) throw InvalidValue.malformed(name)
    size
  }

  private def bit(bytes: Array[Byte], from: Int, index: Int): Boolean =
    (bytes(from + 4 + index / 8) & (0x80 >> index % 8)) != 0
}

object PgBits {
  val Bit = new PgBits("bit")
  val Varbit = new PgBits("varbit")
}
