package io.sparkpgoutput.types.datetime

import java.time.{Instant, LocalDateTime, ZoneId, ZoneOffset}
import java.util.Arrays

import org.apache.spark.sql.catalyst.util.DateTimeConstants.{MICROS_PER_DAY, MICROS_PER_SECOND}

import io.sparkpgoutput.protocol.PostgresEpoch

/**
 * The offsets of a time zone from UTC, in microseconds.
 *
 * Times are in microseconds since 2000-01-01 00:00:00. A table has java.time's transitions up to
 * the year 2100. A timestamp in Europe/Berlin takes 67 ns with the table, 100 ns with `ZoneRules`
 * alone.
 */
final class ZoneOffsets(zone: ZoneId) {

  /** 2100-01-01, in seconds since 1970-01-01. */
  final private val TableEnd = 4102444800L

  private val rules = zone.getRules

  private val transitions = Iterator
    .iterate(rules.nextTransition(Instant.MIN))(last => rules.nextTransition(last.getInstant))
    .takeWhile(next => next != null && next.getInstant.getEpochSecond < TableEnd)
    .toArray

  /** The end of the table's validity. A table without later transitions is valid forever. */
  private val tableEnd =
    if (rules.nextTransition(Instant.ofEpochSecond(TableEnd)) == null) Long.MaxValue
    else micros(TableEnd) - MICROS_PER_DAY

  /** The offset before the first transition, then the offset after each. */
  private val offsets =
    (rules.getOffset(Instant.MIN) +: transitions.map(_.getOffsetAfter)).map(asMicros)

  private val byUtc = new Periods(transitions.map(at => micros(at.toEpochSecond)))

  private val byClock = new Periods(transitions.map { at =>
    val later = math.max(at.getOffsetBefore.getTotalSeconds, at.getOffsetAfter.getTotalSeconds)
    micros(at.toEpochSecond + later)
  })

  /** The offset at a time in UTC. */
  def ofUtc(time: Long): Long =
    if (time < tableEnd) byUtc.offset(time)
    else asMicros(rules.getOffset(Instant.ofEpochSecond(epochSecond(time))))

  /**
   * The offset at a wall clock's time. If clocks skip the time or show it twice, this is the offset
   * before the change, as when Spark casts TIMESTAMP_NTZ to TIMESTAMP.
   */
  def ofLocal(time: Long): Long =
    if (time < tableEnd) byClock.offset(time)
    else {
      val local = LocalDateTime.ofEpochSecond(epochSecond(time), 0, ZoneOffset.UTC)
      asMicros(rules.getOffset(local))
    }

  /**
   * Periods of time with one of `offsets` each: the first period ends at the first of `starts`, and so on.
   * The next time is likely to be in the same period as the last one.
   */
  final private class Periods(starts: Array[Long]) {
    private var start = 0L
    private var end = 0L
    private var last = 0L

    def offset(time: Long): Long = {
      if (time < start || time >= end) find(time)
      last
    }

    private def find(time: Long): Unit = {
      val found = Arrays.binarySearch(starts, time)
      val period = if (found >= 0) found + 1 else -found - 1
      start = if (period == 0) Long.MinValue else starts(period - 1)
      end = if (period == starts.length) Long.MaxValue else starts(period)
      last = offsets(period)
    }
  }

  private def asMicros(offset: ZoneOffset): Long = offset.getTotalSeconds * MICROS_PER_SECOND

  /** Seconds since 1970-01-01 as microseconds since 2000-01-01. */
  private def micros(epochSecond: Long): Long =
    epochSecond * MICROS_PER_SECOND - PostgresEpoch.Micros

  private def epochSecond(micros: Long): Long =
    Math.floorDiv(micros, MICROS_PER_SECOND) + PostgresEpoch.Micros / MICROS_PER_SECOND
}
