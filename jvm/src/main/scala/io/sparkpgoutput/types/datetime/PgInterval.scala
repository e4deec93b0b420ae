package io.sparkpgoutput.types.datetime

import org.apache.spark.sql.catalyst.util.DateTimeConstants._
import org.apache.spark.sql.types.{DataType, DayTimeIntervalType, YearMonthIntervalType}

import io.sparkpgoutput.types._

/**
 * interval. By default it is a STRING, because each of Spark's interval types holds only a part of
 * its values.
 */
object PgInterval extends PgType("interval") {
  override def modifierText(modifier: Int): String = {
    val precision = modifier & 0xffff
    if (precision == FullPrecision) "" else s"($precision)"
  }

  override def conversion(target: DataType, options: ConversionOptions): Option[Conversion] =
    target match {
      case _: YearMonthIntervalType | _: DayTimeIntervalType =>
        Some(new IntervalConversion(target, options.infinity))
      case _ => None
    }

  override def printer(options: ConversionOptions): Printer = new IntervalPrinter

  /** The user gave no precision: `INTERVAL_FULL_PRECISION`. */
  final private val FullPrecision = 0xffff
}

/**
 * An interval as PostgreSQL has it: separate months, days and microseconds, each with its own sign.
 *
 * Its text is what servers print with IntervalStyle postgres: `1 year -2 mons +3 days
 * 04:05:06.789`. The text of other styles is refused, unless that is only a time, which means the
 * same in all styles.
 *
 * An instance holds one value after another.
 *
 * @see `EncodeInterval` of PostgreSQL's `datetime.c`
 */
final class Interval extends DateTimeCursor(PgInterval.name, "IntervalStyle", "postgres") {
  final private val Year = 0
  final private val Month = 1
  final private val Day = 2
  final private val Time = 3
  private val unitNames = Array("year", "mon", "day")
  final private val MostHours = Long.MaxValue / MICROS_PER_HOUR
  private val reader = new BinaryReader(PgInterval.name)

  var months = 0L
  var days = 0L
  var micros = 0L

  /** The unit that was read last. Each unit must be smaller than the previous one. */
  private var last = -1

  /** An [[InfiniteValue]], or 0. All parts of an infinite interval are at their limit. */
  def infinite: Long =
    if (months == Int.MaxValue && days == Int.MaxValue && micros == InfiniteValue.End) micros
    else if (months == Int.MinValue && days == Int.MinValue && micros == InfiniteValue.Begin) micros
    else 0

  /** Reads the binary value: int64 microseconds, int32 days, int32 months (`interval_send`). */
  def readBinary(bytes: Array[Byte], from: Int, to: Int): Unit = {
    reader.start(bytes, from, to)
    micros = reader.int64()
    days = reader.int32().toLong
    months = reader.int32().toLong
    reader.finish()
  }

  def readText(bytes: Array[Byte], from: Int, to: Int): Unit = {
    start(bytes, from, to)
    micros = InfiniteValue.parse(bytes, from, to)
    months = if (micros == 0) 0L else if (micros > 0) Int.MaxValue.toLong else Int.MinValue.toLong
    days = months
    if (micros == 0) {
      last = -1
      part()
      while (at < end) {
        skip(' ')
        part()
      }
      // A Long holds more than the sum of all parts, so only the sums need a check.
      if (months != months.toInt || days != days.toInt) throw malformed
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
    // The sum is computed as a negative number, because the least number has no positive counterpart.
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
    while (unit < unitNames.length && !Ascii.equal(bytes, from, to, unitNames(unit))) unit += 1
    if (unit == unitNames.length) throw malformed
    unit
  }
}

/**
 * Reads intervals as one of Spark's two interval types, which hold either months or days and time. A day
 * has 24 hours.
 *
 * A value that is finer than the last field of the Spark type is refused: an INTERVAL DAY has no
 * hours.
 */
final class IntervalConversion(target: DataType, infinity: InfinityMode) extends Conversion {
  private val YearMonth = YearMonthIntervalType()
  private val DayTime = DayTimeIntervalType()

  /** One more than the days that fit in a Long of microseconds. */
  final private val MostDays = Long.MaxValue / MICROS_PER_DAY + 1

  private val interval = new Interval

  /** Spark's value has months. If not, it has microseconds. */
  private val hasMonths = target.isInstanceOf[YearMonthIntervalType]
  private val greatest = if (hasMonths) Int.MaxValue.toLong else Long.MaxValue
  private val unit: Long = target match {
    case YearMonthIntervalType(_, YearMonthIntervalType.YEAR) => MONTHS_PER_YEAR
    case DayTimeIntervalType(_, DayTimeIntervalType.DAY)      => MICROS_PER_DAY
    case DayTimeIntervalType(_, DayTimeIntervalType.HOUR)     => MICROS_PER_HOUR
    case DayTimeIntervalType(_, DayTimeIntervalType.MINUTE)   => MICROS_PER_MINUTE
    case _                                                    => 1
  }

  override def fromText(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit = {
    interval.readText(bytes, from, to)
    write(out)
  }

  override def fromBinary(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit = {
    interval.readBinary(bytes, from, to)
    write(out)
  }

  private def write(out: ValueWriter): Unit = {
    val infinite = interval.infinite
    if (infinite == 0) {
      val value = if (hasMonths) months else micros
      if (value % unit != 0) {
        refuse(s"is finer than ${target.sql}", if (hasMonths) YearMonth.sql else DayTime.sql)
      }
      out.write(value)
    } else if (InfiniteValue.isClamped(infinity, out)) {
      out.write((if (infinite == InfiniteValue.End) greatest else -greatest - 1) / unit * unit)
    }
  }

  private def months: Long = {
    if (interval.days != 0 || interval.micros != 0) {
      refuse("has days or time", if (interval.months == 0) DayTime.sql else "STRING")
    }
    interval.months
  }

  private def micros: Long = {
    if (interval.months != 0) {
      val only = interval.days == 0 && interval.micros == 0
      refuse("has months", if (only) YearMonth.sql else "STRING")
    }
    // With the same sign, neither the days nor the rest is further from 0 than the sum.
    val days = interval.days + Math.floorDiv(interval.micros, MICROS_PER_DAY)
    val rest = Math.floorMod(interval.micros, MICROS_PER_DAY)
    val borrowed = if (days < 0) 1 else 0
    val sum = (days + borrowed) * MICROS_PER_DAY + (rest - borrowed * MICROS_PER_DAY)
    if (math.abs(days) > MostDays || (sum < 0) != (days < 0)) {
      refuse(s"is out of range for ${target.sql}", "STRING")
    }
    sum
  }

  private def refuse(problem: String, remedy: String) =
    throw new InvalidValue(problem, s"use $remedy")
}

/**
 * Prints binary intervals as with IntervalStyle postgres: `1 year -2 mons +3 days 04:05:06.789`.
 *
 * @see `EncodeInterval`, `AddPostgresIntPart` of PostgreSQL's `datetime.c`
 */
final class IntervalPrinter extends Printer {
  private val interval = new Interval

  /** Whether the last part was negative: then a positive part needs a sign. */
  private var afterNegative = false

  override def print(bytes: Array[Byte], from: Int, to: Int, out: TextBuffer): Unit = {
    interval.readBinary(bytes, from, to)
    if (!InfiniteValue.print(interval.infinite, out)) {
      val start = out.size
      afterNegative = false
      count(interval.months / 12, "year", start, out)
      count(interval.months % 12, "mon", start, out)
      count(interval.days, "day", start, out)
      if (interval.micros != 0 || out.size == start) time(interval.micros, start, out)
    }
  }

  private def count(value: Long, unit: String, start: Int, out: TextBuffer): Unit =
    if (value != 0) {
      separate(value, start, out)
      out.number(value)
      out.add(' ')
      out.add(unit)
      if (value != 1) out.add('s')
      afterNegative = value < 0
    }

  private def time(value: Long, start: Int, out: TextBuffer): Unit = {
    separate(value, start, out)
    if (value < 0) out.add('-')
    DateTimePrinter.time(value, out)
  }

  private def separate(value: Long, start: Int, out: TextBuffer): Unit = {
    if (out.size > start) out.add(' ')
    if (afterNegative && value >= 0) out.add('+')
  }
}
