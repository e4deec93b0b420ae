package io.sparkpgoutput.types.datetime

import org.apache.spark.sql.types.{DataType, TimestampNTZType, TimestampType}

import io.sparkpgoutput.protocol.BigEndian
import io.sparkpgoutput.types.numbers.LongReader
import io.sparkpgoutput.types.{
  Conversion,
  ConversionOptions,
  InfinityMode,
  InvalidValue,
  PgType,
  Printer,
  TextBuffer,
  ValueWriter
}

/**
 * timestamp and timestamptz. Sent as int64: microseconds since 2000-01-01 00:00:00, of timestamptz
 * in UTC; the greatest and the least are infinity and -infinity.
 *
 * @see
 *   `timestamp_send`, `timestamp_out`, `timestamptz_out`
 */
final class PgTimestamp(name: String, zoned: Boolean) extends PgType(name) {
  override def modifierText(modifier: Int): String = s"($modifier)"
  override def sparkType(modifier: Int): DataType = if (zoned) TimestampType else TimestampNTZType
  override def readsUnknown(target: DataType): Boolean = target == sparkType(-1)

  override def conversion(target: DataType, options: ConversionOptions): Option[Conversion] = {
    def offsets = new ZoneOffsets(options.timeZone)
    val reader = new Reader(options.dateStyle, if (zoned) offsets else null)
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
        val days = Math.floorDiv(local, Micros.PerDay)
        val date = CivilDate.ofDays(days)
        DateTimePrinter.date(date, out)
        out.add(' ')
        DateTimePrinter.time(local - days * Micros.PerDay, out)
        if (zoned) DateTimePrinter.offset((offset / Micros.PerSecond).toInt, out)
        DateTimePrinter.era(date, out)
      }
    }
  }

  /** @param zone of text without an offset; null if it never has one */
  private class Reader(style: DateStyle, zone: ZoneOffsets) extends LongReader {
    private val text = new DateTimeText(name, style)

    override def fromText(bytes: Array[Byte], from: Int, to: Int): Long =
      text.timestamp(bytes, from, to, zone)

    override def fromBinary(bytes: Array[Byte], from: Int, to: Int): Long = read(bytes, from, to)
  }

  private def read(bytes: Array[Byte], from: Int, to: Int): Long = {
    InvalidValue.requireSize(name, to - from, 8)
    val value = BigEndian.int64(bytes, from)
    if (PgTimestamp.isValid(value) || value == InfiniteValue.Begin || value == InfiniteValue.End)
      value
    else throw InvalidValue.malformed(name)
  }
}

object PgTimestamp {
  val Timestamp = new PgTimestamp("timestamp", zoned = false)
  val Timestamptz = new PgTimestamp("timestamptz", zoned = true)

  /** Whether there is such a finite timestamp: `IS_VALID_TIMESTAMP`. */
  def isValid(micros: Long): Boolean = micros >= First && micros < End

  /** 4714-11-24 BC and the year 294277. */
  private val First = -211813488000000000L
  private val End = 9223371331200000000L
}

abstract private class TimestampConversion(reader: LongReader, infinity: InfinityMode)
    extends DateTimeConversion(reader, Micros.PerDay, infinity) {
  final override protected def put(value: Long, out: ValueWriter): Unit = out.write(value)
}
