package io.sparkpgoutput.types.datetime

import io.sparkpgoutput.types.{BinaryReader, Printer, TextBuffer}

/**
 * Prints binary intervals as with IntervalStyle postgres: `1 year -2 mons +3 days 04:05:06.789`.
 *
 * @see `EncodeInterval`, `AddPostgresIntPart` of PostgreSQL's `datetime.c`
 */
final class IntervalPrinter(typeName: String) extends Printer {
  private val reader = new BinaryReader(typeName)
  private val interval = new Interval

  /** Tells whether the last part was negative: then a positive part needs a sign. */
  private var afterNegative = false

  override def print(bytes: Array[Byte], from: Int, to: Int, out: TextBuffer): Unit = {
    reader.start(bytes, from, to)
    interval.read(reader)
    if (!InfiniteValue.print(interval.infinite, out)) {
      val start = out.size
      afterNegative = false
      count(interval.months / 12, "year", start, out)
      count(interval.months % 12, "mon", start, out)
      count(interval.days, "day", start, out)
      if (interval.micros != 0 || out.size == start) time(interval.micros, start, out)
    }
  }

  private def count(value: Int, unit: String, start: Int, out: TextBuffer): Unit = if (value != 0) {
    separate(value.toLong, start, out)
    out.number(value.toLong)
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
