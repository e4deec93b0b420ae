package io.sparkpgoutput.types.datetime

import java.time.{LocalDate, Month, Year}

import org.apache.spark.sql.catalyst.util.DateTimeConstants.{MICROS_PER_DAY, MICROS_PER_SECOND}

import io.sparkpgoutput.types._

/**
 * Reads dates and timestamps as servers print them with DateStyle ISO: `1997-12-17 07:37:16-08`. No
 * other DateStyle prints a year first, so a text in another DateStyle is refused.
 *
 * An instance reads one value after another.
 *
 * @see `EncodeDateOnly` and `EncodeDateTime` of PostgreSQL's `datetime.c`
 */
final class DateTimeText(typeName: String) extends DateTimeCursor(typeName, "DateStyle", "ISO") {

  /** The days from 0000-03-01 to 2000-01-01. */
  final private val EpochFromMarch = 730425

  /** `MAX_TZDISP_HOUR` */
  final private val MostHours = 15

  /** The days that fit in a Long of microseconds, minus one, because an offset can add a day. */
  final private val MostDays = Long.MaxValue / MICROS_PER_DAY - 1

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
   * @param zone the time zone of a text that has no offset; null if the type has no time zone
   */
  def timestamp(bytes: Array[Byte], from: Int, to: Int, zone: ZoneOffsets): Long = {
    start(bytes, from, to)
    if (mayBeInfinite) infinite()
    else {
      val local = dateAndTime()
      if (zone == null && (isAt('+') || isAt('-')))
        throw new InvalidValue("has an offset from UTC", "use TIMESTAMP")
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
    val beforeChrist = end - at > 3 && Ascii.equal(bytes, end - 3, end, " BC")
    if (beforeChrist) end -= 3
    // A year has at least four digits, and not more than a date can have. There is no year 0.
    val year = digits(4, 7).toInt
    if (year == 0) throw malformed
    require(6)
    if (bytes(at) != '-' || bytes(at + 3) != '-') throw malformed
    val month = twoDigits(at + 1)
    val day = twoDigits(at + 4)
    at += 6
    days(if (beforeChrist) 1 - year else year, month, day)
  }

  /**
   * The days from 2000-01-01 to a date. The year begins in March, so that a leap day is its last.
   * Without branches, a DATE cell takes 19 ns; with `LocalDate.toEpochDay` it takes 26 ns.
   */
  private def days(year: Int, month: Int, day: Int): Long = {
    if (month < 1 || month > 12 || day < 1 || day > 28 && day > lastDay(year, month))
      throw malformed
    val beforeMarch = (month - 3) >> 31 // -1 or 0
    val marchYear = year + beforeMarch
    val marchMonth = month - 3 + (beforeMarch & 12)
    val leapDays =
      Math.floorDiv(marchYear, 4) - Math.floorDiv(marchYear, 100) + Math.floorDiv(marchYear, 400)
    marchYear * 365L + leapDays + (153 * marchMonth + 2) / 5 + day - 1 - EpochFromMarch
  }

  private def lastDay(year: Int, month: Int): Int =
    Month.of(month).length(Year.isLeap(year.toLong))

  /**
   * `1997-12-17 07:37:16` in microseconds. This checks only that they fit in a Long. The caller subtracts the
   * offset and then checks the range.
   */
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

  /** Returns whether the next byte is this one. */
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
      val value = digits(1, 6)
      (value * PowersOfTen(6 - (at - from))).toInt
    }

  /** Reads the number in the next digits: at least `least` and at most `most` of them. */
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

/**
 * Prints the parts of dates and times as PostgreSQL does with DateStyle ISO.
 *
 * @see `EncodeDateOnly`, `EncodeTimeOnly`, `EncodeTimezone` and `AppendSeconds` of `datetime.c`
 */
object DateTimePrinter {

  /** Prints `1997-12-17`. A date before the year 1 also has an [[era]], which comes last. */
  def date(date: LocalDate, out: TextBuffer): Unit = {
    val year = if (date.getYear > 0) date.getYear else 1 - date.getYear
    out.padded(year.toLong, 4)
    twoDigits('-', date.getMonthValue.toLong, out)
    twoDigits('-', date.getDayOfMonth.toLong, out)
  }

  def era(date: LocalDate, out: TextBuffer): Unit = if (date.getYear <= 0) out.add(" BC")

  /** Prints microseconds as `07:37:16.5`, without their sign. */
  def time(micros: Long, out: TextBuffer): Unit = {
    // Each part has a positive counterpart, unlike the least number as a whole.
    val seconds = math.abs(micros / MICROS_PER_SECOND)
    val hours = seconds / 3600
    val inHour = seconds - hours * 3600
    out.padded(hours, 2)
    twoDigits(':', inHour / 60, out)
    twoDigits(':', inHour % 60, out)
    fraction(math.abs(micros % MICROS_PER_SECOND).toInt, out)
  }

  /** Prints seconds east of UTC as `+05` or `-04:56:02`. */
  def offset(seconds: Int, out: TextBuffer): Unit = {
    val size = math.abs(seconds).toLong
    twoDigits(if (seconds < 0) '-' else '+', size / 3600, out)
    if (size % 3600 != 0) {
      twoDigits(':', size / 60 % 60, out)
      if (size % 60 != 0) twoDigits(':', size % 60, out)
    }
  }

  private def twoDigits(before: Char, value: Long, out: TextBuffer): Unit = {
    out.add(before)
    out.padded(value, 2)
  }

  /** Prints a point and the digits of microseconds up to the last that is not 0. */
  private def fraction(micros: Int, out: TextBuffer): Unit = if (micros != 0) {
    out.add('.')
    var rest = micros
    while (rest != 0) {
      rest *= 10
      val digit = rest / 1000000
      out.add('0' + digit)
      rest -= digit * 1000000
    }
  }
}

/**
 * The values `infinity` and `-infinity`, which are after and before all other dates and timestamps,
 * and more and less than all other intervals.
 *
 * @see `DT_NOBEGIN`, `DT_NOEND`
 */
object InfiniteValue {
  val Begin: Long = Long.MinValue
  val End: Long = Long.MaxValue

  /** `Begin` or `End` if the text is one of them, else 0. */
  def parse(bytes: Array[Byte], from: Int, to: Int): Long =
    if (Ascii.equal(bytes, from, to, "infinity")) End
    else if (Ascii.equal(bytes, from, to, "-infinity")) Begin
    else 0

  /** Returns whether the user wants the nearest finite value. If not, this writes NULL or throws. */
  def isClamped(infinity: InfinityMode, out: ValueWriter): Boolean = infinity match {
    case InfinityMode.Clamp => true
    case InfinityMode.Null  => out.setNull(); false
    case InfinityMode.Error =>
      throw new InvalidValue("is infinite", "set the option infinity to null or clamp")
    case InfinityMode.ErrorOfKey =>
      throw new InvalidValue("is infinite and in the key", "use STRING")
  }

  /** Prints an infinite value; returns false, without printing, if the value is finite. */
  def print(value: Long, out: TextBuffer): Boolean =
    if (value == End) { out.add("infinity"); true }
    else if (value == Begin) { out.add("-infinity"); true }
    else false
}

/** The dates and timestamps that PostgreSQL has, from 4714-11-24 BC on. */
object DateTimeRange {

  /** Returns whether there is such a date, in days since 2000-01-01: `IS_VALID_DATE`. */
  def hasDate(days: Long): Boolean = days >= FirstDay && days < EndDay

  /** Returns whether there is such a finite timestamp, in microseconds: `IS_VALID_TIMESTAMP`. */
  def hasTimestamp(micros: Long): Boolean = micros >= FirstMicros && micros < EndMicros

  private val FirstDay = -2451545L
  private val FirstMicros = -211813488000000000L

  /** 5874898-01-01. */
  private val EndDay = 2145031949L

  /** 294277-01-01. */
  private val EndMicros = 9223371331200000000L
}
