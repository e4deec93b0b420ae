package io.sparkpgoutput.types.datetime

import io.sparkpgoutput.types.{
  BinaryReader,
  ConversionOptions,
  InvalidValue,
  PgType,
  Printer,
  TextBuffer
}

/**
 * time and timetz. Sent as int64, microseconds since midnight, and for timetz int32, seconds west
 * of UTC. Spark has no type for them.
 *
 * @see
 *   `time_send`, `timetz_send`
 */
final class PgTime(name: String, zoned: Boolean) extends PgType(name) {
  override def modifierText(modifier: Int): String = s"($modifier)"

  override def printer(options: ConversionOptions): Printer = new Printer {
    private val reader = new BinaryReader(name)

    override def print(bytes: Array[Byte], from: Int, to: Int, out: TextBuffer): Unit = {
      reader.start(bytes, from, to)
      val micros = reader.int64()
      val secondsWest = if (zoned) reader.int32() else 0
      reader.finish()
      // There is 24:00:00.
      if (micros < 0 || micros > Micros.PerDay || math.abs(secondsWest.toLong) >= OffsetsEnd) {
        throw InvalidValue.malformed(name)
      }
      DateTimePrinter.time(micros, out)
      if (zoned) DateTimePrinter.offset(-secondsWest, out)
    }
  }

  /** `TZDISP_LIMIT` */
  private def OffsetsEnd = 16 * 3600
}

object PgTime {
  val Time = new PgTime("time", zoned = false)
  val Timetz = new PgTime("timetz", zoned = true)
}
