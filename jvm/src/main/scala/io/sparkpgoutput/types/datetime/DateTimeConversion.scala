package io.sparkpgoutput.types.datetime

import io.sparkpgoutput.types.numbers.{LongConversion, LongReader}
import io.sparkpgoutput.types.{InfinityMode, InvalidValue, ValueWriter}

/**
 * Reads dates and timestamps, which Spark prints and collects of the years 1 to 9999 only.
 *
 * @param reader
 *   gives the value in PostgreSQL's count, from 2000-01-01, or one of the [[InfiniteValue]]
 * @param unitsPerDay
 *   in that count
 */
abstract class DateTimeConversion(
    reader: LongReader,
    unitsPerDay: Long,
    infinity: InfinityMode
) extends LongConversion(reader) {
  private val first = CivilDate.days(1, 1, 1) * unitsPerDay
  private val last = CivilDate.days(10000, 1, 1) * unitsPerDay - 1
  private val unixEpoch = CivilDate.UnixEpoch * unitsPerDay

  /** What is to be Spark's value, for a value that is finite; both from 2000-01-01. */
  protected def convert(value: Long): Long

  /** Writes Spark's value. */
  protected def put(value: Long, out: ValueWriter): Unit

  final override def write(value: Long, out: ValueWriter): Unit =
    if (value == InfiniteValue.Begin) unbounded(first, out)
    else if (value == InfiniteValue.End) unbounded(last, out)
    else {
      val converted = convert(value)
      if (converted < first) throw new InvalidValue("is before the year 1", "use STRING")
      if (converted > last) throw new InvalidValue("is after the year 9999", "use STRING")
      put(converted - unixEpoch, out)
    }

  private def unbounded(nearest: Long, out: ValueWriter): Unit =
    if (InfiniteValue.isClamped(infinity, out)) put(nearest - unixEpoch, out)
}
