package io.sparkpgoutput.types.datetime

/** Microseconds, in which PostgreSQL and Spark count time. */
object Micros {
  final val PerSecond = 1000000L
  final val PerMinute = 60 * PerSecond
  final val PerHour = 60 * PerMinute
  final val PerDay = 24 * PerHour
}
