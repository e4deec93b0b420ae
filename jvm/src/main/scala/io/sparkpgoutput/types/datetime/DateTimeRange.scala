package io.sparkpgoutput.types.datetime

/** The dates and timestamps that PostgreSQL has, from 4714-11-24 BC on. */
object DateTimeRange {

  /** Tells whether there is such a date, in days since 2000-01-01: `IS_VALID_DATE`. */
  def hasDate(days: Long): Boolean = days >= FirstDay && days < EndDay

  /** Tells whether there is such a finite timestamp, in microseconds: `IS_VALID_TIMESTAMP`. */
  def hasTimestamp(micros: Long): Boolean = micros >= FirstMicros && micros < EndMicros

  private val FirstDay = -2451545L
  private val FirstMicros = -211813488000000000L

  /** 5874898-06-04. */
  private val EndDay = 2145031949L

  /** The year 294277. */
  private val EndMicros = 9223371331200000000L
}
