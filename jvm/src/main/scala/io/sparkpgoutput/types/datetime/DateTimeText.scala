package io.sparkpgoutput.types.datetime

import io.sparkpgoutput.types.{Ascii, InvalidValue}

/**
 * Reads dates and timestamps as servers print them: in ISO 8601, or in the server's DateStyle. Used
 * again for one value after another.
 *
 * @see
 *   `EncodeDateOnly` and `EncodeDateTime` of PostgreSQL's `datetime.c`
 */
final class DateTimeText(typeName: String, style: DateStyle)
    extends DateTimeCursor(typeName) {
  import DateTimeText._

  private var beforeChrist = false

  /** Days since 2000-01-01, or one of the [[InfiniteValue]]. */
  def date(bytes: Array[Byte], from: Int, to: Int): Long = {
    start(bytes, from, to)
    if (mayBeUnbounded) unbounded()
    else {
      beforeChrist = endsBeforeChrist()
      val days = if (isIso) isoDate() else numericDate()
      if (at != end || !PgDate.isValid(days)) throw malformed
      days
    }
  }

  /**
   * Microseconds since 2000-01-01 00:00:00, or one of the [[InfiniteValue]].
   *
   * @param zone
   *   of a text that has no offset; null if none can have one, as it is of type timestamp
   */
  def timestamp(bytes: Array[Byte], from: Int, to: Int, zone: ZoneOffsets): Long = {
    start(bytes, from, to)
    if (mayBeUnbounded) unbounded()
    else {
      beforeChrist = endsBeforeChrist()
      val iso = isIso
      val local = if (iso || !isPostgres) dateAndTime(iso) else timeInDate()
      val value =
        if (zone == null) local
        else if (at == end) local - zone.ofLocal(local)
        else if (iso) local - offset()
        else local - zoneName()
      if (at != end || !PgTimestamp.isValid(value)) throw malformed
      value
    }
  }

  private def mayBeUnbounded = isAt('i') || isAt('-')

  private def unbounded(): Long = {
    val value = InfiniteValue.parse(bytes, at, end)
    if (value == 0) throw malformed
    value
  }

  private def endsBeforeChrist(): Boolean = {
    val ends = end - at > 3 && bytes(end - 1) == 'C' && bytes(end - 2) == 'B' &&
      bytes(end - 3) == ' '
    if (ends) end -= 3
    ends
  }

  /** ISO begins with a year, of four digits or more; no other style has a digit in third place. */
  private def isIso: Boolean = (style eq DateStyle.Iso) || end - at > 2 && isDigit(at + 2)

  private def isPostgres = style == DateStyle.PostgresDmy || style == DateStyle.PostgresMdy

  /** `1997-12-17` */
  private def isoDate(): Long = {
    val year = this.year()
    require(6)
    if (bytes(at) != '-' || bytes(at + 3) != '-') throw malformed
    val month = twoDigits(at + 1)
    val day = twoDigits(at + 4)
    at += 6
    days(year, month, day)
  }

  /** `12/17/1997`, `17.12.1997` and the like. */
  private def numericDate(): Long = {
    if (end - at < 6 || bytes(at + 2) != style.separator || bytes(at + 5) != style.separator) {
      throw notOfStyle
    }
    val first = twoDigits(at)
    val second = twoDigits(at + 3)
    at += 6
    if (style.dayFirst) days(year(), second, first) else days(year(), first, second)
  }

  /** `1997-12-17 07:37:16`, `17.12.1997 07:37:16` and the like, without the zone. */
  private def dateAndTime(iso: Boolean): Long = {
    val days = if (iso) isoDate() else numericDate()
    skip(' ')
    timestamp(days, timeOfDay())
  }

  /** `Wed Dec 17 07:37:16 1997` or `Wed 17 Dec 07:37:16 1997`, without the zone. */
  private def timeInDate(): Long = {
    if (end - at < 11 || bytes(at + 3) != ' ') throw notOfStyle
    val week = oneOf(Weekdays, at)
    val month = oneOf(Months, if (style.dayFirst) at + 7 else at + 4) + 1
    val day = twoDigits(if (style.dayFirst) at + 4 else at + 8)
    at += (if (style.dayFirst) 6 else 7)
    skip(' ')
    at += (if (style.dayFirst) 3 else 2)
    skip(' ')
    val time = timeOfDay()
    skip(' ')
    val date = days(year(), month, day)
    if (CivilDate.dayOfWeek(date) != week) throw malformed
    timestamp(date, time)
  }

  /** A year: at least four digits, no more than a date can have. */
  private def year(): Int = {
    val from = at
    val limit = math.min(end, from + 7)
    var index = from
    var value = 0
    while (index < limit && isDigit(index)) {
      value = value * 10 + (bytes(index) - '0')
      index += 1
    }
    if (index - from < 4) throw notOfStyle
    if (value == 0) throw malformed
    at = index
    if (beforeChrist) 1 - value else value
  }

  private def days(year: Int, month: Int, day: Int): Long = {
    if (!CivilDate.exists(year, month, day)) throw malformed
    CivilDate.days(year, month, day)
  }

  /** Whether there is such a timestamp shows once the offset is taken off. */
  private def timestamp(days: Long, time: Long): Long = {
    if (math.abs(days) > MostDays) throw malformed
    days * Micros.PerDay + time
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
    (hour * 3600 + minute * 60 + second) * Micros.PerSecond + fraction()
  }

  /** `+05`, `+05:30`, `-04:56:02`, in microseconds; also `+0530`, a zone's name in tzdata. */
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
    } else if (at < end) seconds += sixty() * 60
    (if (sign == '-') -seconds else seconds) * Micros.PerSecond
  }

  /** An offset, or the abbreviation of a zone's name if it can have but one meaning. */
  private def zoneName(): Long = {
    // Right after a year, it would look like a part of a date.
    if (isAt(' ') || isPostgres) skip(' ')
    if (at == end || !isLetter(at)) offset()
    else if (OnlyUtc.exists(Ascii.equal(bytes, at, end, _))) { at = end; 0 }
    else {
      throw new InvalidValue(
        "has a time zone's abbreviation, which may have several meanings",
        "set the server's DateStyle to ISO"
      )
    }
  }

  /** Which name it is, of several with three letters each. */
  private def oneOf(names: String, at: Int): Int = {
    var index = 0
    while (
      index < names.length && (bytes(at) != names.charAt(index) ||
        bytes(at + 1) != names.charAt(index + 1) || bytes(at + 2) != names.charAt(index + 2))
    ) index += 3
    if (index == names.length) throw malformed
    index / 3
  }

  private def notOfStyle =
    new InvalidValue(s"is no $typeName in DateStyle ${style.name}", "use the option dateStyle")
}

private object DateTimeText {
  private val Weekdays = "SunMonTueWedThuFriSat"
  private val Months = "JanFebMarAprMayJunJulAugSepOctNovDec"
  private val OnlyUtc = Seq("UTC", "GMT", "Z")

  /** `MAX_TZDISP_HOUR` */
  private val MostHours = 15

  /** The days that a Long of microseconds holds, less one that an offset may add. */
  private val MostDays = Long.MaxValue / Micros.PerDay - 1
}
