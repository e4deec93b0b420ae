package io.sparkpgoutput.types.datetime

import org.apache.spark.sql.catalyst.util.DateTimeConstants.MICROS_PER_DAY

import io.sparkpgoutput.types._

/**
 * time and timetz. The binary value is an int64, the microseconds since midnight, and for timetz
 * then an int32, the seconds west of UTC. Spark 4.0 has no type for them.
 *
 * @see `time_send`, `timetz_send`
 */
final class PgTime(name: String, zoned: Boolean) extends PgType(name) {
  override def modifierText(modifier: Int): String = s"($modifier)"

  override def printer(options: ConversionOptions): Printer = Printer.of(name) { (reader, out) =>
    val micros = reader.int64()
    val secondsWest = if (zoned) reader.int32() else 0
    // PostgreSQL has the time 24:00:00.
    if (micros < 0 || micros > MICROS_PER_DAY || math.abs(secondsWest.toLong) >= OffsetsEnd) {
      throw InvalidValue.malformed(name)
    }
    DateTimePrinter.time(micros, out)
    if (zoned) DateTimePrinter.offset(-secondsWest, out)
  }

  /** `TZDISP_LIMIT` */
  private def OffsetsEnd = 16 * 3600
}

object PgTime {
  val Time = new PgTime("time", zoned = false)
  val Timetz = new PgTime("timetz", zoned = true)
}
