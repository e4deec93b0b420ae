package io.sparkpgoutput.types.families

import io.sparkpgoutput.types._

/**
 * inet and cidr. The binary value has a byte each for the family (2 is IPv4, 3 is IPv6), the bits of
 * the netmask, whether it is a cidr, and the size of the address; then the address.
 *
 * @see `src/backend/utils/adt/network.c`: `network_send`, `network_out`; `src/port/inet_net_ntop.c`
 */
final class PgInet private (name: String, alwaysBits: Boolean) extends PgType(name) {

  override def printer(options: ConversionOptions): Printer = (bytes, from, to, out) => {
    if (to - from < 4) throw malformed
    val bits = bytes(from + 1) & 0xff
    val size = bytes(from) match {
      case 2 => 4
      case 3 => 16
      case _ => throw malformed
    }
    if (bits > 8 * size || bytes(from + 3) != size || to - from != 4 + size) throw malformed
    if (size == 4) PgInet.printV4(bytes, from + 4, out) else PgInet.printV6(bytes, from + 4, out)
    if (alwaysBits || bits != 8 * size) {
      out.add('/')
      out.number(bits.toLong)
    }
  }
}

object PgInet {
  val Inet = new PgInet("inet", alwaysBits = false)
  val Cidr = new PgInet("cidr", alwaysBits = true)

  private val Words = 8

  private def printV4(bytes: Array[Byte], from: Int, out: TextBuffer): Unit = {
    var at = 0
    while (at < 4) {
      if (at > 0) out.add('.')
      out.number(bytes(from + at) & 0xffL)
      at += 1
    }
  }

  /** Prints words in hexadecimal. It leaves out the first of the longest runs of zero words. */
  private def printV6(bytes: Array[Byte], from: Int, out: TextBuffer): Unit = {
    var zeros = 0 // the longest run: its first word, and its size
    var size = 1
    var run = 0
    var at = 0
    while (at < Words) {
      run = if (word(bytes, from, at) == 0) run + 1 else 0
      if (run > size) { size = run; zeros = at + 1 - run }
      at += 1
    }
    val end = if (size > 1) zeros + size else -1
    // An IPv6 address can hold an IPv4 address: ::1.2.3.4 or ::ffff:1.2.3.4.
    val hasV4 = zeros == 0 && (size == 6 || size == 5 && word(bytes, from, 5) == 0xffff)
    at = 0
    while (at < Words)
      if (at == zeros && end > 0) {
        out.add(':')
        at = end
        if (end == Words) out.add(':')
      } else {
        if (at > 0) out.add(':')
        if (at == 6 && hasV4) {
          printV4(bytes, from + 12, out)
          at = Words
        } else {
          hexadecimal(word(bytes, from, at), out)
          at += 1
        }
      }
  }

  private def word(bytes: Array[Byte], from: Int, index: Int): Int =
    (bytes(from + 2 * index) & 0xff) << 8 | bytes(from + 2 * index + 1) & 0xff

  private def hexadecimal(word: Int, out: TextBuffer): Unit = {
    var shift = 12
    while (shift > 0 && word >> shift == 0) shift -= 4
    while (shift >= 0) {
      out.hexDigit(word >> shift)
      shift -= 4
    }
  }
}

/** macaddr and macaddr8: 6 or 8 bytes, printed as `08:00:2b:01:02:03`. */
final class PgMacAddress(name: String, bytesSent: Int) extends PgType(name) {
  override def printer(options: ConversionOptions): Printer = (bytes, from, to, out) => {
    InvalidValue.requireSize(name, to - from, bytesSent)
    var at = from
    while (at < to) {
      if (at > from) out.add(':')
      out.hex(bytes, at, at + 1)
      at += 1
    }
  }
}
