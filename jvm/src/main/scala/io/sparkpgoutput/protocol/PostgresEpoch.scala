package io.sparkpgoutput.protocol

import org.apache.spark.sql.catalyst.util.DateTimeConstants.MICROS_PER_DAY

/** PostgreSQL counts time from 2000-01-01. Spark and Java count from 1970-01-01. */
object PostgresEpoch {
  final val Days = 10957L
  final val Micros = Days * MICROS_PER_DAY
}
