package io.sparkpgoutput.types.datetime

import io.sparkpgoutput.types.InvalidValue

/**
 * Goes through the text of a date, a timestamp or an interval, part by part. It never looks at a
 * byte beyond the text.
 *
 * @param setting the server's setting that decides how the text looks
 * @param style the value of the setting whose texts are read
 */
abstract class DateTimeCursor(typeName: String, setting: String, style: String) {
  protected var bytes: Array[Byte] = Array.emptyByteArray
  protected var at = 0
  protected var end = 0

  protected def start(bytes: Array[Byte], from: Int, to: Int): Unit = {
    this.bytes = bytes
    at = from
    end = to
  }

  /** Tells whether the next byte is this one. */
  protected def isAt(byte: Char): Boolean = at < end && bytes(at) == byte

  protected def skip(byte: Char): Unit = {
    if (!isAt(byte)) throw malformed
    at += 1
  }

  /** Checks that so many bytes are left. */
  protected def require(size: Int): Unit = if (end - at < size) throw malformed

  /** The number at a position. Call [[require]] first. */
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

  /** A point and one to six digits, in microseconds. 0 if there is no point. */
  protected def fraction(): Int =
    if (!isAt('.')) 0
    else {
      at += 1
      val from = at
      val value = digits(1, 6).toInt
      value * DateTimeCursor.FractionUnits(at - from)
    }

  /** The number in the next digits, up to so many. */
  protected def digits(least: Int, most: Int): Long = {
    val from = at
    val limit = math.min(end, from + most)
    var index = from
    var value = 0L
    while (index < limit && bytes(index) >= '0' && bytes(index) <= '9') {
      value = value * 10 + (bytes(index) - '0')
      index += 1
    }
    if (index - from < least) throw malformed
    at = index
    value
  }

  protected def malformed: InvalidValue = new InvalidValue(
    s"is not a valid $typeName in $setting $style",
    s"set $setting to $style for the server, the database or the role that sends the messages, or " +
      "use STRING"
  )
}

private object DateTimeCursor {

  /** The microseconds in the last digit of a fraction of so many digits. */
  private val FractionUnits = Array(1000000, 100000, 10000, 1000, 100, 10, 1)
}
