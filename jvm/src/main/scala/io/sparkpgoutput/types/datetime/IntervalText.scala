package io.sparkpgoutput.types.datetime

import org.apache.spark.sql.catalyst.util.DateTimeConstants._

import io.sparkpgoutput.types.Ascii

/**
 * Reads intervals as servers print them with IntervalStyle postgres: `1 year -2 mons +3 days
 * 04:05:06.789`, where each part has its own sign. It refuses the text of other styles, unless that
 * is only a time, which means the same in all styles.
 *
 * An instance reads one value after another.
 *
 * @see `EncodeInterval` of PostgreSQL's `datetime.c`
 */
final class IntervalText(typeName: String)
    extends DateTimeCursor(typeName, "IntervalStyle", "postgres") {
  import IntervalText._

  // Wider than an interval's, so that only the sums need a check.
  private var months = 0L
  private var days = 0L
  private var micros = 0L

  /** The unit that was read last. Each must be smaller than the one before. */
  private var last = -1

  def read(bytes: Array[Byte], from: Int, to: Int, interval: Interval): Unit = {
    start(bytes, from, to)
    val infinite = InfiniteValue.parse(bytes, from, to)
    if (infinite != 0) interval.setInfinite(infinite)
    else {
      months = 0
      days = 0
      micros = 0
      last = -1
      part()
      while (at < end) {
        skip(' ')
        part()
      }
      if (months != months.toInt || days != days.toInt) throw malformed
      interval.months = months.toInt
      interval.days = days.toInt
      interval.micros = micros
    }
  }

  /** `-2 mons` or `04:05:06` */
  private def part(): Unit = {
    val negative = isAt('-')
    if (negative || isAt('+')) at += 1
    val from = at
    val count = digits(1, 10) // no more than the number of any unit can have
    if (isAt(':') && at - from > 1) time(negative, count)
    else {
      skip(' ')
      val signed = if (negative) -count else count
      next(unit()) match {
        case Year  => months += signed * MONTHS_PER_YEAR
        case Month => months += signed
        case Day   => days += signed
      }
    }
  }

  private def next(unit: Int): Int = {
    if (unit <= last) throw malformed
    last = unit
    unit
  }

  /** The rest of `04:05:06.789` */
  private def time(negative: Boolean, hours: Long): Unit = {
    next(Time)
    skip(':')
    val minutes = sixty()
    skip(':')
    val seconds = sixty()
    val rest = minutes * MICROS_PER_MINUTE + seconds * MICROS_PER_SECOND + fraction()
    if (hours > MostHours) throw malformed
    // Negative all the way: the least number has no positive counterpart.
    val value = -hours * MICROS_PER_HOUR - rest
    if (value > 0 || value == Long.MinValue && !negative) throw malformed
    micros = if (negative) value else -value
  }

  /** `year`, `mons` and the like. */
  private def unit(): Int = {
    val from = at
    while (at < end && bytes(at) != ' ') at += 1
    val to = if (at > from && bytes(at - 1) == 's') at - 1 else at
    var unit = 0
    while (unit < UnitNames.length && !Ascii.equal(bytes, from, to, UnitNames(unit))) unit += 1
    if (unit == UnitNames.length) throw malformed
    unit
  }
}

private object IntervalText {
  final private val Year = 0
  final private val Month = 1
  final private val Day = 2
  final private val Time = 3

  private val UnitNames = Array("year", "mon", "day")

  private val MostHours = Long.MaxValue / MICROS_PER_HOUR
}
