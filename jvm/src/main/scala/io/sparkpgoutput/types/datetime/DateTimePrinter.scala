package io.sparkpgoutput.types.datetime

import java.time.LocalDate

import org.apache.spark.sql.catalyst.util.DateTimeConstants.MICROS_PER_SECOND

import io.sparkpgoutput.types.TextBuffer

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
    out.add('-')
    out.padded(date.getMonthValue.toLong, 2)
    out.add('-')
    out.padded(date.getDayOfMonth.toLong, 2)
  }

  def era(date: LocalDate, out: TextBuffer): Unit = if (date.getYear <= 0) out.add(" BC")

  /** Prints microseconds as `07:37:16.5`, without their sign. */
  def time(micros: Long, out: TextBuffer): Unit = {
    // A part can be made positive, unlike the least number as a whole.
    val seconds = math.abs(micros / MICROS_PER_SECOND)
    val hours = seconds / 3600
    val inHour = seconds - hours * 3600
    out.padded(hours, 2)
    out.add(':')
    out.padded(inHour / 60, 2)
    out.add(':')
    out.padded(inHour % 60, 2)
    fraction(math.abs(micros % MICROS_PER_SECOND).toInt, out)
  }

  /** Prints seconds east of UTC as `+05` or `-04:56:02`. */
  def offset(seconds: Int, out: TextBuffer): Unit = {
    val size = math.abs(seconds).toLong
    out.add(if (seconds < 0) '-' else '+')
    out.padded(size / 3600, 2)
    if (size % 3600 != 0) {
      out.add(':')
      out.padded(size / 60 % 60, 2)
      if (size % 60 != 0) {
        out.add(':')
        out.padded(size % 60, 2)
      }
    }
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
