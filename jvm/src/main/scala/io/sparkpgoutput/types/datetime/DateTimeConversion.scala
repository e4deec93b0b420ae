package io.sparkpgoutput.types.datetime

import java.time.LocalDate

import io.sparkpgoutput.protocol.PostgresEpoch
import io.sparkpgoutput.types.numbers.{LongConversion, LongReader}
import io.sparkpgoutput.types.{InfinityMode, InvalidValue, ValueWriter}

/**
 * Reads dates and timestamps. It refuses those outside the years 1 to 9999, because Spark cannot
 * print or collect them.
 *
 * @param reader gives the units since 2000-01-01, or an [[InfiniteValue]]
 * @param unitsPerDay 1 for dates, the microseconds of a day for timestamps
 */
abstract class DateTimeConversion(
    reader: LongReader,
    unitsPerDay: Long,
    infinity: InfinityMode
) extends LongConversion(reader) {
  private val unixEpoch = -PostgresEpoch.Days * unitsPerDay
  private val first = unixEpoch + LocalDate.of(1, 1, 1).toEpochDay * unitsPerDay
  private val last = unixEpoch + LocalDate.of(10000, 1, 1).toEpochDay * unitsPerDay - 1

  /** Converts a finite value to the one that Spark is to have. Both count from 2000-01-01. */
  protected def convert(value: Long): Long

  /** Writes Spark's value, which counts from 1970-01-01. */
  protected def put(value: Long, out: ValueWriter): Unit

  final override def write(value: Long, out: ValueWriter): Unit =
    if (value == InfiniteValue.Begin) writeInfinite(first, out)
    else if (value == InfiniteValue.End) writeInfinite(last, out)
    else {
      val converted = convert(value)
      if (converted < first) throw new InvalidValue("is before the year 1", "use STRING")
      if (converted > last) throw new InvalidValue("is after the year 9999", "use STRING")
      put(converted - unixEpoch, out)
    }

  private def writeInfinite(nearest: Long, out: ValueWriter): Unit =
    if (InfiniteValue.isClamped(infinity, out)) put(nearest - unixEpoch, out)
}
