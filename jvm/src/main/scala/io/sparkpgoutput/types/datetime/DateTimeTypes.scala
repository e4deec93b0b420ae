package io.sparkpgoutput.types.datetime

import java.time.LocalDate

import org.apache.spark.sql.catalyst.util.DateTimeConstants.{MICROS_PER_DAY, MICROS_PER_SECOND}
import org.apache.spark.sql.types.{DataType, DateType, TimestampNTZType, TimestampType}

import io.sparkpgoutput.protocol.{BigEndian, PostgresEpoch}
import io.sparkpgoutput.types._

/**
 * timestamp and timestamptz. The binary value is an int64, the microseconds since 2000-01-01
 * 00:00:00, in UTC for timestamptz. The greatest and the least are infinity and -infinity.
 *
 * @see `timestamp_send`, `timestamp_out`, `timestamptz_out`
 */
final class PgTimestamp(name: String, zoned: Boolean) extends PgType(name) {
  override def modifierText(modifier: Int): String = s"($modifier)"
  override def sparkType(modifier: Int): DataType = if (zoned) TimestampType else TimestampNTZType

  override def conversion(target: DataType, options: ConversionOptions): Option[Conversion] =
    Option.when(target == TimestampType || target == TimestampNTZType) {
      val moves = target != sparkType(-1)
      val zone = if (zoned || moves) new ZoneOffsets(options.timeZone) else null
      val zoneOfText = if (zoned) zone else null
      new DateTimeConversion(MICROS_PER_DAY, options.infinity) {
        private val text = new DateTimeText(name)

        override def fromText(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit =
          write(text.timestamp(bytes, from, to, zoneOfText), out)

        override def fromBinary(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit =
          write(read(bytes, from, to), out)

        override protected def convert(value: Long): Long =
          if (!moves) value
          else if (zoned) value + zone.ofUtc(value)
          else value - zone.ofLocal(value)
      }
    }

  override def printer(options: ConversionOptions): Printer = new Printer {
    private val zone = new ZoneOffsets(options.printedTimeZone)

    override def print(bytes: Array[Byte], from: Int, to: Int, out: TextBuffer): Unit = {
      val value = read(bytes, from, to)
      if (!InfiniteValue.print(value, out)) {
        val offset = if (zoned) zone.ofUtc(value) else 0L
        val local = value + offset
        val days = Math.floorDiv(local, MICROS_PER_DAY)
        val date = LocalDate.ofEpochDay(days + PostgresEpoch.Days)
        DateTimePrinter.date(date, out)
        out.add(' ')
        DateTimePrinter.time(local - days * MICROS_PER_DAY, out)
        if (zoned) DateTimePrinter.offset((offset / MICROS_PER_SECOND).toInt, out)
        DateTimePrinter.era(date, out)
      }
    }
  }

  private def read(bytes: Array[Byte], from: Int, to: Int): Long = {
    val value = int64(bytes, from, to)
    val isInfinite = value == InfiniteValue.Begin || value == InfiniteValue.End
    if (!isInfinite && !DateTimeRange.hasTimestamp(value)) throw malformed
    value
  }
}

object PgTimestamp {
  val Timestamp = new PgTimestamp("timestamp", zoned = false)
  val Timestamptz = new PgTimestamp("timestamptz", zoned = true)
}

/**
 * date. The binary value is an int32, the days since 2000-01-01. The greatest and the least are
 * infinity and -infinity.
 *
 * @see `date_send`, `date_out`
 */
object PgDate extends PgType("date") {
  override def sparkType(modifier: Int): DataType = DateType

  override def conversion(target: DataType, options: ConversionOptions): Option[Conversion] =
    Option.when(target == DateType)(new DateTimeConversion(unitsPerDay = 1, options.infinity) {
      private val text = new DateTimeText(name)

      override def fromText(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit =
        write(text.date(bytes, from, to), out)

      override def fromBinary(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit =
        write(read(bytes, from, to), out)
    })

  override def printer(options: ConversionOptions): Printer = (bytes, from, to, out) => {
    val days = read(bytes, from, to)
    if (!InfiniteValue.print(days, out)) {
      val date = LocalDate.ofEpochDay(days + PostgresEpoch.Days)
      DateTimePrinter.date(date, out)
      DateTimePrinter.era(date, out)
    }
  }

  private def read(bytes: Array[Byte], from: Int, to: Int): Long = {
    InvalidValue.requireSize(name, to - from, 4)
    val days = BigEndian.int32(bytes, from)
    if (days == Int.MaxValue) InfiniteValue.End
    else if (days == Int.MinValue) InfiniteValue.Begin
    else if (DateTimeRange.hasDate(days.toLong)) days.toLong
    else throw malformed
  }
}

/**
 * time and timetz. The binary value is an int64, the microseconds since midnight. For timetz, an
 * int32 follows, the seconds west of UTC. Spark 4.0 has no type for them.
 *
 * @see `time_send`, `timetz_send`
 */
final class PgTime(name: String, zoned: Boolean) extends PgType(name) {
  override def modifierText(modifier: Int): String = s"($modifier)"

  override def printer(options: ConversionOptions): Printer = Printer.of(name) { (reader, out) =>
    val micros = reader.int64()
    val secondsWest = if (zoned) reader.int32() else 0
    // PostgreSQL has the time 24:00:00.
    if (micros < 0 || micros > MICROS_PER_DAY || math.abs(secondsWest.toLong) >= OffsetsEnd)
      throw malformed
    DateTimePrinter.time(micros, out)
    if (zoned) DateTimePrinter.offset(-secondsWest, out)
  }

  /** `TZDISP_LIMIT` */
  private def OffsetsEnd = 16 * 3600
}

/**
 * Reads dates and timestamps. It refuses those outside the years 1 to 9999, because Spark cannot
 * print or collect them.
 *
 * @param unitsPerDay 1 for dates, the microseconds of a day for timestamps
 */
abstract class DateTimeConversion(unitsPerDay: Long, infinity: InfinityMode) extends Conversion {
  private val unixEpoch = -PostgresEpoch.Days * unitsPerDay
  private val first = unixEpoch + LocalDate.of(1, 1, 1).toEpochDay * unitsPerDay
  private val last = unixEpoch + LocalDate.of(10000, 1, 1).toEpochDay * unitsPerDay - 1

  /** Converts a finite value to Spark's, unless both are the same. Both count from 2000-01-01. */
  protected def convert(value: Long): Long = value

  /** Writes units since 2000-01-01, or an [[InfiniteValue]]. */
  final protected def write(value: Long, out: ValueWriter): Unit =
    if (value == InfiniteValue.Begin) writeInfinite(first, out)
    else if (value == InfiniteValue.End) writeInfinite(last, out)
    else {
      val converted = convert(value)
      if (converted < first) throw new InvalidValue("is before the year 1", "use STRING")
      if (converted > last) throw new InvalidValue("is after the year 9999", "use STRING")
      out.write(converted - unixEpoch)
    }

  private def writeInfinite(nearest: Long, out: ValueWriter): Unit =
    if (InfiniteValue.isClamped(infinity, out)) out.write(nearest - unixEpoch)
}
