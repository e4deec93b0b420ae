package io.sparkpgoutput.types

import org.apache.spark.sql.types.{DataType, DayTimeIntervalType, YearMonthIntervalType}

/**
 * interval. It is a STRING where nothing else is asked for, as Spark's intervals hold but a part.
 */
object PgInterval extends PgType {
  override def name: String = "interval"

  override def conversion(target: DataType, options: ConversionOptions): Option[Conversion] =
    Option(target match {
      case months: YearMonthIntervalType =>
        IntervalConversion.toYearMonth(name, months, options.infinity)
      case micros: DayTimeIntervalType =>
        IntervalConversion.toDayTime(name, micros, options.infinity)
      case _ => null
    })

  override def printer(options: ConversionOptions): Printer = new IntervalPrinter(name)
}
