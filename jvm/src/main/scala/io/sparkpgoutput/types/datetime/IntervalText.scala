package io.sparkpgoutput.types.datetime

import io.sparkpgoutput.types.Ascii

/**
 * Reads intervals as servers print them, in any IntervalStyle; the text shows which it is. Used
 * again for one value after another.
 *
 *   - postgres: `1 year -2 mons +3 days 04:05:06.789`. Each part has its sign.
 *   - postgres_verbose: `@ 1 year -2 mons 4 hours ago`. The last word turns all signs round.
 *   - iso_8601: `P1Y-2M3DT4H5M6.789S`
 *   - sql_standard: `1-2`, `3 4:05:06`, `4:05:06`, where a minus sign in front is for all; or
 *     `+1-2 -3 +4:05:06`, always with all three signs. Nothing at all is `0`.
 *
 * @see
 *   `EncodeInterval` of PostgreSQL's `datetime.c`
 */
final class IntervalText(typeName: String) extends DateTimeCursor(typeName) {
  import IntervalText._

  // Wider than an interval's, so that they need be checked only at the end.
  private var months = 0L
  private var days = 0L
  private var micros = 0L

  /** Whether all signs are turned round. */
  private var turned = false

  /** The unit that was read last: each must be smaller than the one before. */
  private var last = -1

  def read(bytes: Array[Byte], from: Int, to: Int, interval: Interval): Unit = {
    start(bytes, from, to)
    months = 0
    days = 0
    micros = 0
    turned = false
    last = -1
    val unbounded = InfiniteValue.parse(bytes, from, to)
    if (unbounded != 0) interval.setUnbounded(unbounded)
    else {
      if (isAt('P')) iso8601()
      else if (isAt('@')) verbose()
      else postgresOrSql()
      if (at != end || months != months.toInt || days != days.toInt) throw malformed
      interval.months = months.toInt
      interval.days = days.toInt
      interval.micros = micros
    }
  }

  private def iso8601(): Unit = {
    at += 1
    var inTime = false
    while (last < 0 || at < end) {
      if (isAt('T') && !inTime) { at += 1; inTime = true }
      val negative = isNegative()
      val count = number()
      val part = fraction()
      require(1)
      val unit = (if (inTime) IsoTimeUnits else IsoDateUnits).indexOf(bytes(at).toInt)
      if (unit < 0) throw malformed
      at += 1
      add(negative, count, part, unit)
    }
  }

  private def verbose(): Unit = {
    at += 1
    skip(' ')
    if (Ascii.equal(bytes, at, end, "0")) at = end
    else {
      turned = end - at > 4 && Ascii.equal(bytes, end - 4, end, " ago")
      if (turned) end -= 4
      unitsAndTime()
    }
  }

  /** What follows the first number tells: units have names only in the style postgres. */
  private def postgresOrSql(): Unit = {
    val from = at
    val hasSign = isAt('+') || isAt('-')
    val negative = isNegative()
    val count = number()
    if (isAt('-')) {
      yearsAndMonths(negative, count)
      if (at < end) { if (hasSign) daysAndTimeWithSigns() else throw malformed }
    } else if (end - at > 1 && bytes(at) == ' ' && !isLetter(at + 1)) {
      at += 1
      turned = negative
      add(negative = false, count, 0, Day)
      time(negative = false, number())
    } else if (!Ascii.equal(bytes, from, end, "0")) {
      at = from
      unitsAndTime()
    }
  }

  /** `1 year -2 mons +3 days 04:05:06` */
  private def unitsAndTime(): Unit =
    while (last < 0 || at < end) {
      if (last >= 0) skip(' ')
      val negative = isNegative()
      val count = number()
      if (isAt(':')) time(negative, count)
      else {
        val part = fraction()
        skip(' ')
        add(negative, count, part, unitName())
      }
    }

  private def yearsAndMonths(negative: Boolean, years: Long): Unit = {
    at += 1
    val months = number()
    if (months > 11) throw malformed
    add(negative, years, 0, Year)
    add(negative, months, 0, Month)
  }

  /** ` -3 +4:05:06` */
  private def daysAndTimeWithSigns(): Unit = {
    skip(' ')
    val pastDays = isNegativeForSure()
    add(pastDays, number(), 0, Day)
    skip(' ')
    val pastTime = isNegativeForSure()
    time(pastTime, number())
  }

  /** The rest of `4:05:06.789`, which is the last of an interval. */
  private def time(negative: Boolean, hours: Long): Unit = {
    add(negative, hours, 0, Hour)
    skip(':')
    add(negative, sixty().toLong, 0, Minute)
    skip(':')
    val seconds = sixty().toLong
    add(negative, seconds, fraction(), Second)
  }

  /** Goes past a sign, if there is one. */
  private def isNegative(): Boolean = {
    val negative = isAt('-')
    if (negative || isAt('+')) at += 1
    negative
  }

  /** Goes past a sign, which there must be. */
  private def isNegativeForSure(): Boolean = {
    if (!isAt('-') && !isAt('+')) throw malformed
    isNegative()
  }

  /** Digits: no more than any unit's number can have. */
  private def number(): Long = {
    val from = at
    val limit = math.min(end, from + 10)
    var index = from
    var value = 0L
    while (index < limit && isDigit(index)) {
      value = value * 10 + (bytes(index) - '0')
      index += 1
    }
    if (index == from) throw malformed
    at = index
    value
  }

  /** `year`, `mons` and the like. */
  private def unitName(): Int = {
    val from = at
    while (at < end && isLetter(at)) at += 1
    val to = if (at > from && bytes(at - 1) == 's') at - 1 else at
    var unit = 0
    while (unit < UnitNames.length && !Ascii.equal(bytes, from, to, UnitNames(unit))) unit += 1
    if (unit == UnitNames.length) throw malformed
    unit
  }

  /** @param part microseconds, of seconds only */
  private def add(negative: Boolean, count: Long, part: Int, unit: Int): Unit = {
    if (unit <= last || part != 0 && unit != Second) throw malformed
    last = unit
    val signed = if (negative != turned) -count else count
    unit match {
      case Year   => months += signed * 12
      case Month  => months += signed
      case Day    => days += signed
      case Hour   => if (count > MostHours) throw malformed else add(signed * Micros.PerHour)
      case Minute => add(signed * Micros.PerMinute)
      case Second => add(signed * Micros.PerSecond + (if (negative != turned) -part else part))
    }
  }

  private def add(amount: Long): Unit = {
    val sum = micros + amount
    if (((micros ^ sum) & (amount ^ sum)) < 0) throw malformed
    micros = sum
  }
}

private object IntervalText {
  final private val Year = 0
  final private val Month = 1
  final private val Day = 2
  final private val Hour = 3
  final private val Minute = 4
  final private val Second = 5

  private val UnitNames = Array("year", "mon", "day", "hour", "min", "sec")
  private val IsoDateUnits = "YMD"
  private val IsoTimeUnits = "   HMS"

  private val MostHours = Long.MaxValue / Micros.PerHour
}
