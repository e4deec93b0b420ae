package io.sparkpgoutput.types.datetime

import io.sparkpgoutput.types.BinaryReader

/**
 * An interval as PostgreSQL has it: separate months, days and microseconds, each with its own sign.
 *
 * An instance holds one value after another.
 */
final class Interval {
  var months = 0
  var days = 0
  var micros = 0L

  /** An [[InfiniteValue]], or 0. All parts of an infinite interval are at their limit. */
  def infinite: Long =
    if (months == Int.MaxValue && days == Int.MaxValue && micros == InfiniteValue.End) micros
    else if (months == Int.MinValue && days == Int.MinValue && micros == InfiniteValue.Begin) micros
    else 0

  def setInfinite(value: Long): Unit = {
    months = if (value == InfiniteValue.End) Int.MaxValue else Int.MinValue
    days = months
    micros = value
  }

  /** Reads the binary value: int64 microseconds, int32 days, int32 months (`interval_send`). */
  def read(reader: BinaryReader): Unit = {
    micros = reader.int64()
    days = reader.int32()
    months = reader.int32()
    reader.finish()
  }
}
