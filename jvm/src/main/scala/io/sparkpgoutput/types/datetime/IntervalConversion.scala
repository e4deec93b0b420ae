package io.sparkpgoutput.types.datetime

import org.apache.spark.sql.catalyst.util.DateTimeConstants._
import org.apache.spark.sql.types.{DayTimeIntervalType, YearMonthIntervalType}

import io.sparkpgoutput.types._

/**
 * Reads intervals as one of Spark's two interval types, which hold either months or days and time.
 *
 * A value that is finer than the last field of the Spark type is refused: an INTERVAL DAY has no
 * hours.
 */
abstract class IntervalConversion(typeName: String, infinity: InfinityMode) extends Conversion {
  private val text = new IntervalText(typeName)
  private val binary = new BinaryReader(typeName)
  private val interval = new Interval

  /** Writes a finite interval. */
  protected def write(interval: Interval, out: ValueWriter): Unit

  /** Writes the greatest or the least interval, which is nearest to an infinite one. */
  protected def writeNearest(greatest: Boolean, out: ValueWriter): Unit

  final override def fromText(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit = {
    text.read(bytes, from, to, interval)
    writeAny(out)
  }

  final override def fromBinary(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit = {
    binary.start(bytes, from, to)
    interval.read(binary)
    writeAny(out)
  }

  private def writeAny(out: ValueWriter): Unit = {
    val infinite = interval.infinite
    if (infinite == 0) write(interval, out)
    else if (InfiniteValue.isClamped(infinity, out))
      writeNearest(infinite == InfiniteValue.End, out)
  }

  protected def refuse(problem: String, remedy: String) =
    throw new InvalidValue(problem, s"use $remedy")
}

object IntervalConversion {
  private val YearMonth = YearMonthIntervalType()
  private val DayTime = DayTimeIntervalType()

  /** Spark's value has months. */
  def toYearMonth(
      typeName: String,
      target: YearMonthIntervalType,
      infinity: InfinityMode
  ): Conversion =
    new IntervalConversion(typeName, infinity) {
      private val unit = if (target.endField == YearMonthIntervalType.YEAR) MONTHS_PER_YEAR else 1

      override protected def write(interval: Interval, out: ValueWriter): Unit = {
        if (interval.days != 0 || interval.micros != 0) {
          refuse("has days or time", if (interval.months == 0) DayTime.sql else "STRING")
        }
        if (interval.months % unit != 0) refuse(s"is finer than ${target.sql}", YearMonth.sql)
        out.write(interval.months)
      }

      override protected def writeNearest(greatest: Boolean, out: ValueWriter): Unit =
        out.write((if (greatest) Int.MaxValue else Int.MinValue) / unit * unit)
    }

  /** Spark's value has microseconds. A day has 24 hours. */
  def toDayTime(typeName: String, target: DayTimeIntervalType, infinity: InfinityMode): Conversion =
    new IntervalConversion(typeName, infinity) {
      private val unit = target.endField match {
        case DayTimeIntervalType.DAY    => MICROS_PER_DAY
        case DayTimeIntervalType.HOUR   => MICROS_PER_HOUR
        case DayTimeIntervalType.MINUTE => MICROS_PER_MINUTE
        case _                          => 1L
      }

      override protected def write(interval: Interval, out: ValueWriter): Unit = {
        if (interval.months != 0) {
          val only = interval.days == 0 && interval.micros == 0
          refuse("has months", if (only) YearMonth.sql else "STRING")
        }
        val value = micros(interval.days, interval.micros)
        if (value % unit != 0) refuse(s"is finer than ${target.sql}", DayTime.sql)
        out.write(value)
      }

      override protected def writeNearest(greatest: Boolean, out: ValueWriter): Unit =
        out.write((if (greatest) Long.MaxValue else Long.MinValue) / unit * unit)

      private def micros(days: Int, micros: Long): Long = {
        // With the same sign, neither the days nor the rest is further from 0 than the sum.
        val allDays = days + Math.floorDiv(micros, MICROS_PER_DAY)
        val rest = Math.floorMod(micros, MICROS_PER_DAY)
        val borrowed = if (allDays < 0) 1 else 0
        val sum = (allDays + borrowed) * MICROS_PER_DAY + (rest - borrowed * MICROS_PER_DAY)
        if (math.abs(allDays) > MostDays || (sum < 0) != (allDays < 0)) {
          refuse(s"is out of range for ${target.sql}", "STRING")
        }
        sum
      }
    }

  /** One more than a Long of microseconds holds. */
  private val MostDays = Long.MaxValue / MICROS_PER_DAY + 1
}
