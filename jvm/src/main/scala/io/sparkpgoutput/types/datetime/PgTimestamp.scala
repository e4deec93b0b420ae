package io.sparkpgoutput.types.datetime

import java.time.LocalDate

import org.apache.spark.sql.catalyst.util.DateTimeConstants.{MICROS_PER_DAY, MICROS_PER_SECOND}
import org.apache.spark.sql.types.{DataType, TimestampNTZType, TimestampType}

import io.sparkpgoutput.protocol.{BigEndian, PostgresEpoch}
import io.sparkpgoutput.types._
import io.sparkpgoutput.types.numbers.LongReader

/**
 * timestamp and timestamptz. The binary value is an int64, the microseconds since 2000-01-01
 * 00:00:00, in UTC for timestamptz. The greatest and the least are infinity and -infinity.
 *
 * @see `timestamp_send`, `timestamp_out`, `timestamptz_out`
 */
final class PgTimestamp(name: String, zoned: Boolean) extends PgType(name) {
  override def modifierText(modifier: Int): String = s"($modifier)"
  override def sparkType(modifier: Int): DataType = if (zoned) TimestampType else TimestampNTZType
  override def readsUnknown(target: DataType): Boolean = target == sparkType(-1)

  override def conversion(target: DataType, options: ConversionOptions): Option[Conversion] = {
    def offsets = new ZoneOffsets(options.timeZone)
    val reader = new Reader(if (zoned) offsets else null)
    Option(target match {
      case TimestampType if !zoned =>
        new TimestampConversion(reader, options.infinity) {
          private val zone = offsets
          override protected def convert(value: Long): Long = value - zone.ofLocal(value)
        }
      case TimestampNTZType if zoned =>
        new TimestampConversion(reader, options.infinity) {
          private val zone = offsets
          override protected def convert(value: Long): Long = value + zone.ofUtc(value)
        }
      case TimestampType | TimestampNTZType =>
        new TimestampConversion(reader, options.infinity) {
          override protected def convert(value: Long): Long = value
        }
      case _ => null
    })
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

  /** @param zone the time zone of text without an offset; null if the type has no time zone */
  private class Reader(zone: ZoneOffsets) extends LongReader {
    private val text = new DateTimeText(name)

    override def fromText(bytes: Array[Byte], from: Int, to: Int): Long =
      text.timestamp(bytes, from, to, zone)

    override def fromBinary(bytes: Array[Byte], from: Int, to: Int): Long = read(bytes, from, to)
  }

  private def read(bytes: Array[Byte], from: Int, to: Int): Long = {
    InvalidValue.requireSize(name, to - from, 8)
    val value = BigEndian.int64(bytes, from)
    val isInfinite = value == InfiniteValue.Begin || value == InfiniteValue.End
    if (!isInfinite && !DateTimeRange.hasTimestamp(value)) throw InvalidValue.malformed(name)
    value
  }
}

object PgTimestamp {
  val Timestamp = new PgTimestamp("timestamp", zoned = false)
  val Timestamptz = new PgTimestamp("timestamptz", zoned = true)
}

abstract private class TimestampConversion(reader: LongReader, infinity: InfinityMode)
    extends DateTimeConversion(reader, MICROS_PER_DAY, infinity) {
  final override protected def put(value: Long, out: ValueWriter): Unit = out.write(value)
}
