package io.sparkpgoutput.types.datetime

import io.sparkpgoutput.types.InvalidValue

/**
 * Goes through the text of a date, a time or an interval, part after part. What is not as it must
 * be is thrown as malformed; no byte is looked at beyond the text.
 */
abstract class DateTimeCursor(typeName: String) {
  protected var bytes: Array[Byte] = Array.emptyByteArray
  protected var at = 0
  protected var end = 0

  protected def start(bytes: Array[Byte], from: Int, to: Int): Unit = {
    this.bytes = bytes
    at = from
    end = to
  }

  /** Whether the next byte is this one. */
  protected def isAt(byte: Char): Boolean = at < end && bytes(at) == byte

  protected def skip(byte: Char): Unit = {
    if (!isAt(byte)) throw malformed
    at += 1
  }

  /** There must be so many bytes. */
  protected def require(size: Int): Unit = if (end - at < size) throw malformed

  /** The number at a place that [[require]] has made sure of. */
  protected def twoDigits(at: Int): Int = {
    val tens = bytes(at) - '0'
    val ones = bytes(at + 1) - '0'
    if (tens < 0 || tens > 9 || ones < 0 || ones > 9) throw malformed
    tens * 10 + ones
  }

  /** Two digits: minutes or seconds. */
  protected def sixty(): Int = {
    require(2)
    val value = twoDigits(at)
    if (value > 59) throw malformed
    at += 2
    value
  }

  /** A point and one to six digits: in microseconds. 0 where there is no point. */
  protected def fraction(): Int =
    if (!isAt('.')) 0
    else {
      val from = at + 1
      val limit = math.min(end, from + 6)
      var index = from
      var value = 0
      while (index < limit && isDigit(index)) {
        value = value * 10 + (bytes(index) - '0')
        index += 1
      }
      if (index == from) throw malformed
      at = index
      value * DateTimeCursor.FractionUnits(index - from)
    }

  protected def isDigit(at: Int): Boolean = bytes(at) >= '0' && bytes(at) <= '9'

  protected def isLetter(at: Int): Boolean = {
    val lower = bytes(at) | 0x20
    lower >= 'a' && lower <= 'z'
  }

  protected def malformed: InvalidValue = InvalidValue.malformed(typeName)
}

private object DateTimeCursor {

  /** Microseconds in the last of so many digits of a fraction. */
  private val FractionUnits = Array(1000000, 100000, 10000, 1000, 100, 10, 1)
}
