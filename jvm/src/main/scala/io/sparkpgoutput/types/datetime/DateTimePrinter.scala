package io.sparkpgoutput.types.datetime

import io.sparkpgoutput.types.TextBuffer

/**
 * Prints the parts of dates and times as PostgreSQL does in ISO 8601.
 *
 * @see
 *   `EncodeDateOnly`, `EncodeTimeOnly`, `EncodeTimezone` and `AppendSeconds` of `datetime.c`
 */
object DateTimePrinter {

  /** `1997-12-17`; what comes before the year 1 also has an [[era]], which is printed last. */
  def date(date: Long, out: TextBuffer): Unit = {
    val civilYear = CivilDate.year(date)
    val year = if (civilYear > 0) civilYear else 1 - civilYear
    if (year < 10000) { twoDigits(year / 100, out); twoDigits(year % 100, out) }
    else out.number(year.toLong)
    out.add('-')
    twoDigits(CivilDate.month(date), out)
    out.add('-')
    twoDigits(CivilDate.day(date), out)
  }

  def era(date: Long, out: TextBuffer): Unit =
    if (CivilDate.year(date) <= 0) out.add(BeforeChrist, 0, 3)

  /** `07:37:16.5`, of microseconds; their sign is left to the caller. */
  def time(micros: Long, out: TextBuffer): Unit = {
    // Parts may be made positive, the least number as a whole may not.
    val seconds = math.abs(micros / Micros.PerSecond)
    val hours = seconds / 3600
    val inHour = (seconds - hours * 3600).toInt
    if (hours < 100) twoDigits(hours.toInt, out) else out.number(hours)
    out.add(':')
    twoDigits(inHour / 60, out)
    out.add(':')
    twoDigits(inHour % 60, out)
    fraction(math.abs(micros % Micros.PerSecond).toInt, out)
  }

  /** `+05`, `-04:56:02`, of seconds east of UTC. */
  def offset(seconds: Int, out: TextBuffer): Unit = {
    val size = math.abs(seconds)
    out.add(if (seconds < 0) '-' else '+')
    twoDigits(size / 3600, out)
    if (size % 3600 != 0) {
      out.add(':')
      twoDigits(size / 60 % 60, out)
      if (size % 60 != 0) {
        out.add(':')
        twoDigits(size % 60, out)
      }
    }
  }

  /** A point and the digits of microseconds up to the last that is not 0. */
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

  private def twoDigits(value: Int, out: TextBuffer): Unit = {
    out.add('0' + value / 10)
    out.add('0' + value % 10)
  }

  private val BeforeChrist = Array[Byte](' ', 'B', 'C')
}
