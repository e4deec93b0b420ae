package io.sparkpgoutput.types.datetime

import java.time.{DateTimeException, LocalDate}

import org.apache.spark.sql.catalyst.util.DateTimeConstants.{MICROS_PER_DAY, MICROS_PER_SECOND}

import io.sparkpgoutput.protocol.PostgresEpoch

/**
 * Reads dates and timestamps as servers print them with DateStyle ISO: `1997-12-17 07:37:16-08`. No
 * other DateStyle prints a year first, so that a text in another one is refused.
 *
 * An instance reads one value after another.
 *
 * @see
 *   `EncodeDateOnly` and `EncodeDateTime` of PostgreSQL's `datetime.c`
 */
final class DateTimeText(typeName: String) extends DateTimeCursor(typeName, "DateStyle", "ISO") {
  import DateTimeText._

  /** Days since 2000-01-01, or an [[InfiniteValue]]. */
  def date(bytes: Array[Byte], from: Int, to: Int): Long = {
    start(bytes, from, to)
    if (mayBeInfinite) infinite()
    else {
      val days = date()
      if (at != end || !DateTimeRange.hasDate(days)) throw malformed
      days
    }
  }

  /**
   * Microseconds since 2000-01-01 00:00:00, or an [[InfiniteValue]].
   *
   * @param zone
   *   the time zone of a text that has no offset; null if the type has no time zone
   */
  def timestamp(bytes: Array[Byte], from: Int, to: Int, zone: ZoneOffsets): Long = {
    start(bytes, from, to)
    if (mayBeInfinite) infinite()
    else {
      val local = dateAndTime()
      val value =
        if (zone == null) local
        else if (at == end) local - zone.ofLocal(local)
        else local - offset()
      if (at != end || !DateTimeRange.hasTimestamp(value)) throw malformed
      value
    }
  }

  private def mayBeInfinite = isAt('i') || isAt('-')

  private def infinite(): Long = {
    val value = InfiniteValue.parse(bytes, at, end)
    if (value == 0) throw malformed
    value
  }

  /** `1997-12-17`, of a text that may end with ` BC`. */
  private def date(): Long = {
    val beforeChrist = endsBeforeChrist()
    val year = this.year()
    require(6)
    if (bytes(at) != '-' || bytes(at + 3) != '-') throw malformed
    val month = twoDigits(at + 1)
    val day = twoDigits(at + 4)
    at += 6
    try
      LocalDate.of(if (beforeChrist) 1 - year else year, month, day).toEpochDay - PostgresEpoch.Days
    catch { case _: DateTimeException => throw malformed }
  }

  private def endsBeforeChrist(): Boolean = {
    val ends = end - at > 3 && bytes(end - 1) == 'C' && bytes(end - 2) == 'B' &&
      bytes(end - 3) == ' '
    if (ends) end -= 3
    ends
  }

  /** A year: at least four digits, and not more than a date can have. There is no year 0. */
  private def year(): Int = {
    val from = at
    val limit = math.min(end, from + 7)
    var index = from
    var value = 0
    while (index < limit && isDigit(index)) {
      value = value * 10 + (bytes(index) - '0')
      index += 1
    }
    if (index - from < 4 || value == 0) throw malformed
    at = index
    value
  }

  /** `1997-12-17 07:37:16`. Only without its offset it shows whether a server has the timestamp. */
  private def dateAndTime(): Long = {
    val days = date()
    if (math.abs(days) > MostDays) throw malformed
    skip(' ')
    days * MICROS_PER_DAY + timeOfDay()
  }

  /** `07:37:16.5` in microseconds. */
  private def timeOfDay(): Long = {
    require(8)
    if (bytes(at + 2) != ':' || bytes(at + 5) != ':') throw malformed
    val hour = twoDigits(at)
    val minute = twoDigits(at + 3)
    val second = twoDigits(at + 6)
    if (hour > 23 || minute > 59 || second > 59) throw malformed
    at += 8
    (hour * 3600 + minute * 60 + second) * MICROS_PER_SECOND + fraction()
  }

  /** `+05`, `+05:30`, `-04:56:02`, in microseconds. */
  private def offset(): Long = {
    require(3)
    val sign = bytes(at)
    if (sign != '+' && sign != '-') throw malformed
    val hours = twoDigits(at + 1)
    if (hours > MostHours) throw malformed
    at += 3
    var seconds = hours * 3600
    if (isAt(':')) {
      at += 1
      seconds += sixty() * 60
      if (isAt(':')) { at += 1; seconds += sixty() }
    }
    (if (sign == '-') -seconds else seconds) * MICROS_PER_SECOND
  }
}

private object DateTimeText {

  /** `MAX_TZDISP_HOUR` */
  private val MostHours = 15

  /** The days that a Long of microseconds holds, less one that an offset may add. */
  private val MostDays = Long.MaxValue / MICROS_PER_DAY - 1
}
