package io.sparkpgoutput.options

import java.time.Duration

import scala.util.Try

import org.apache.spark.network.util.JavaUtils

/** Reads the values of options that have a unit, as Spark's own options do. */
object OptionValues {

  /** A longer time is a mistake. From 292 years on, it would not fit into a Long of nanoseconds. */
  final private val LongestTime = Duration.ofDays(365)

  /** Reads a time such as 500ms or 10s. A number without a unit is in milliseconds. */
  def time(text: String): Option[Duration] =
    Try(Duration.ofMillis(JavaUtils.timeStringAsMs(text))).toOption
      .filter(time => !time.isNegative && time.compareTo(LongestTime) <= 0)

  /** Reads a size such as 512m or 2g, at least 1 byte. */
  def size(text: String): Option[Long] =
    Try(JavaUtils.byteStringAsBytes(text)).toOption.filter(_ > 0)
}
