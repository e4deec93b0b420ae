package io.sparkpgoutput.types.datetime

import io.sparkpgoutput.types.BinaryReader

/**
 * An interval, as PostgreSQL has it: months, days and microseconds apart from each other, each with
 * its sign. Used again for one value after another.
 */
final class Interval {
  var months = 0
  var days = 0
  var micros = 0L

  /**
   * One of the [[InfiniteValue]], or 0 if it is finite. Infinite is what has all its parts at an end.
   */
  def unbounded: Long =
    if (months == Int.MaxValue && days == Int.MaxValue && micros == InfiniteValue.End) micros
    else if (months == Int.MinValue && days == Int.MinValue && micros == InfiniteValue.Begin) micros
    else 0

  def setUnbounded(value: Long): Unit = {
    months = if (value == InfiniteValue.End) Int.MaxValue else Int.MinValue
    days = months
    micros = value
  }

  /** Reads what `interval_send` made: int64 microseconds, int32 days, int32 months. */
  def read(reader: BinaryReader): Unit = {
    micros = reader.int64()
    days = reader.int32()
    months = reader.int32()
    reader.finish()
  }
}
