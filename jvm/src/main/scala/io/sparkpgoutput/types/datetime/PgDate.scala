package io.sparkpgoutput.types.datetime

import java.time.LocalDate

import org.apache.spark.sql.types.{DataType, DateType}

import io.sparkpgoutput.protocol.{BigEndian, PostgresEpoch}
import io.sparkpgoutput.types._
import io.sparkpgoutput.types.numbers.LongReader

/**
 * date. The binary value is an int32, the days since 2000-01-01. The greatest and the least are
 * infinity and -infinity.
 *
 * @see `date_send`, `date_out`
 */
object PgDate extends PgType("date") {
  override def sparkType(modifier: Int): DataType = DateType
  override def readsUnknown(target: DataType): Boolean = target == DateType

  override def conversion(target: DataType, options: ConversionOptions): Option[Conversion] =
    Option.when(target == DateType)(
      new DateTimeConversion(newReader(), unitsPerDay = 1, options.infinity) {
        override protected def convert(value: Long): Long = value
        override protected def put(value: Long, out: ValueWriter): Unit = out.write(value.toInt)
      }
    )

  override def printer(options: ConversionOptions): Printer = (bytes, from, to, out) => {
    val days = read(bytes, from, to)
    if (!InfiniteValue.print(days, out)) {
      val date = LocalDate.ofEpochDay(days + PostgresEpoch.Days)
      DateTimePrinter.date(date, out)
      DateTimePrinter.era(date, out)
    }
  }

  private def newReader() = new LongReader {
    private val text = new DateTimeText(name)

    override def fromText(bytes: Array[Byte], from: Int, to: Int): Long = text.date(bytes, from, to)
    override def fromBinary(bytes: Array[Byte], from: Int, to: Int): Long = read(bytes, from, to)
  }

  private def read(bytes: Array[Byte], from: Int, to: Int): Long = {
    InvalidValue.requireSize(name, to - from, 4)
    val days = BigEndian.int32(bytes, from)
    if (days == Int.MaxValue) InfiniteValue.End
    else if (days == Int.MinValue) InfiniteValue.Begin
    else if (DateTimeRange.hasDate(days.toLong)) days.toLong
    else throw InvalidValue.malformed(name)
  }
}
