package io.sparkpgoutput.protocol

import java.util.Locale

import org.apache.spark.sql.catalyst.util.DateTimeConstants.MICROS_PER_DAY

/**
 * The text of an LSN as PostgreSQL's type pg_lsn has it: the upper and the lower 32 bits in
 * hexadecimal, with a slash between them. PostgreSQL 19 pads the lower half with zeros, and earlier
 * versions do not. This object reads both.
 */
object Lsn {
  private val Text = "([0-9a-fA-F]{1,8})/([0-9a-fA-F]{1,8})".r

  /** For example `16/B374D848`. A negative value is an LSN in the upper half of the 64 bits. */
  def format(lsn: Long): String =
    s"${(lsn >>> 32).toHexString}/${(lsn & 0xffffffffL).toHexString}".toUpperCase(Locale.ROOT)

  /** Returns the 64 bits of an LSN, or None for a text that is not an LSN. */
  def parse(text: String): Option[Long] = text match {
    case Text(high, low) =>
      Some(java.lang.Long.parseLong(high, 16) << 32 | java.lang.Long.parseLong(low, 16))
    case _ => None
  }

  /** Returns whether the first LSN is below the second. */
  def isBelow(lsn: Long, other: Long): Boolean = java.lang.Long.compareUnsigned(lsn, other) < 0

  def min(lsn: Long, other: Long): Long = if (isBelow(lsn, other)) lsn else other
  def max(lsn: Long, other: Long): Long = if (isBelow(lsn, other)) other else lsn
}

/** PostgreSQL counts time from 2000-01-01. Spark and Java count from 1970-01-01. */
object PostgresEpoch {
  final val Days = 10957L
  final val Micros = Days * MICROS_PER_DAY
}
