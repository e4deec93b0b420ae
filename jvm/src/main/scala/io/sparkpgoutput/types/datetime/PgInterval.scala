package io.sparkpgoutput.types.datetime

import org.apache.spark.sql.types.{DataType, DayTimeIntervalType, YearMonthIntervalType}

import io.sparkpgoutput.types.{Conversion, ConversionOptions, PgType, Printer}

/**
 * interval. By default it is a STRING, because each of Spark's interval types holds only a part of
 * its values.
 */
object PgInterval extends PgType("interval") {
  override def modifierText(modifier: Int): String = {
    val precision = modifier & 0xffff
    if (precision == FullPrecision) "" else s"($precision)"
  }

  override def readsUnknown(target: DataType): Boolean = target match {
    case _: DayTimeIntervalType | _: YearMonthIntervalType => true
    case _                                                 => false
  }

  override def conversion(target: DataType, options: ConversionOptions): Option[Conversion] =
    Option(target match {
      case months: YearMonthIntervalType =>
        IntervalConversion.toYearMonth(name, months, options.infinity)
      case micros: DayTimeIntervalType =>
        IntervalConversion.toDayTime(name, micros, options.infinity)
      case _ => null
    })

  override def printer(options: ConversionOptions): Printer = new IntervalPrinter(name)

  /** The user gave no precision: `INTERVAL_FULL_PRECISION`. */
  final private val FullPrecision = 0xffff
}
