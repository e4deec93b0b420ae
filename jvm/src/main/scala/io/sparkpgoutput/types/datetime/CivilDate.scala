package io.sparkpgoutput.types.datetime

/**
 * Days of the proleptic Gregorian calendar, and their years, months and days of the month.
 *
 * Days are counted from 2000-01-01, as PostgreSQL counts them. There is a year 0: it is 1 BC. A
 * date is one number, as there is no room for three in what a method returns: its parts are got by
 * `year`, `month` and `day`.
 *
 * The years begin in March here, so that a leap day is a year's last, and come in eras of 400,
 * which are all the same.
 */
object CivilDate {
  private val DaysPerEra = 146097

  /** The days from 0000-03-01 to 2000-01-01. */
  private val EraStart = 730425

  /** 1970-01-01, from which Spark counts. */
  val UnixEpoch: Int = -10957

  /** Of a date that exists. */
  def days(year: Int, month: Int, day: Int): Long = {
    // Not a branch, which would often be guessed wrong.
    val beforeMarch = (month - 3) >> 31 // -1 or 0
    val marchYear = year + beforeMarch
    val marchMonth = month - 3 + (beforeMarch & 12)
    val era = Math.floorDiv(marchYear, 400)
    val yearOfEra = marchYear - era * 400
    val dayOfYear = (153 * marchMonth + 2) / 5 + day - 1
    val dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
    era.toLong * DaysPerEra + dayOfEra - EraStart
  }

  /** The date that is so many days after 2000-01-01, of those that PostgreSQL has. */
  def ofDays(days: Long): Long = {
    val sinceEraStart = days.toInt + EraStart
    val era = Math.floorDiv(sinceEraStart, DaysPerEra)
    val dayOfEra = sinceEraStart - era * DaysPerEra
    val yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36524 - dayOfEra / 146096) / 365
    val dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    val marchMonth = (5 * dayOfYear + 2) / 153
    val day = dayOfYear - (153 * marchMonth + 2) / 5 + 1
    val month = if (marchMonth < 10) marchMonth + 3 else marchMonth - 9
    val year = era * 400 + yearOfEra + (if (month > 2) 0 else 1)
    year.toLong << 9 | month.toLong << 5 | day.toLong
  }

  def year(date: Long): Int = (date >> 9).toInt
  def month(date: Long): Int = (date >> 5).toInt & 15
  def day(date: Long): Int = date.toInt & 31

  /** Whether there is such a date. */
  def exists(year: Int, month: Int, day: Int): Boolean =
    month >= 1 && month <= 12 && day >= 1 && (day <= 28 || day <= lastDay(year, month))

  /** 0 for Sunday up to 6 for Saturday. */
  def dayOfWeek(days: Long): Int = Math.floorMod(days + 6, 7)

  private def lastDay(year: Int, month: Int): Int =
    if (month == 2) { if (isLeap(year)) 29 else 28 }
    else 30 + (month + (month >> 3) & 1)

  private def isLeap(year: Int): Boolean = (year & 3) == 0 && (year % 100 != 0 || year % 400 == 0)
}
