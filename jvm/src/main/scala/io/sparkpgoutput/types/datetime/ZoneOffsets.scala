package io.sparkpgoutput.types.datetime

import java.time.{Instant, LocalDateTime, ZoneId, ZoneOffset}
import java.util.Arrays

/**
 * How far a time zone is ahead of UTC, in microseconds, by java.time's rules.
 *
 * Times are in microseconds since 2000-01-01 00:00:00. The zone's transitions up to a year not far
 * ahead are in a table; later times are rare, and left to java.time.
 */
final class ZoneOffsets(zone: ZoneId) {
  import ZoneOffsets._

  private val rules = zone.getRules

  private val transitions = Iterator
    .iterate(rules.nextTransition(Instant.MIN))(last => rules.nextTransition(last.getInstant))
    .takeWhile(next => next != null && next.getInstant.getEpochSecond < TableEnd)
    .toArray

  /** Until when the table holds: forever if there are no transitions after it. */
  private val tableEnd =
    if (rules.nextTransition(Instant.ofEpochSecond(TableEnd)) == null) Long.MaxValue
    else micros(TableEnd) - Micros.PerDay

  /** The offset before the first transition, then those after each. */
  private val offsets =
    (rules.getOffset(Instant.MIN) +: transitions.map(_.getOffsetAfter)).map(asMicros)

  private val byUtc = new Periods(offsets, transitions.map(at => micros(at.toEpochSecond)))

  private val byClock = new Periods(
    offsets,
    transitions.map { at =>
      val later = math.max(at.getOffsetBefore.getTotalSeconds, at.getOffsetAfter.getTotalSeconds)
      micros(at.toEpochSecond + later)
    }
  )

  /** At a time in UTC. */
  def ofUtc(time: Long): Long =
    if (time < tableEnd) byUtc.offset(time)
    else asMicros(rules.getOffset(Instant.ofEpochSecond(epochSecond(time))))

  /**
   * At a wall clock's time. One that is skipped or comes twice, as clocks are set, is taken to have
   * the offset from before that: as Spark casts TIMESTAMP_NTZ to TIMESTAMP.
   */
  def ofLocal(time: Long): Long =
    if (time < tableEnd) byClock.offset(time)
    else {
      val local = LocalDateTime.ofEpochSecond(epochSecond(time), 0, ZoneOffset.UTC)
      asMicros(rules.getOffset(local))
    }
}

private object ZoneOffsets {

  /** 2100-01-01, in seconds since 1970-01-01. */
  private val TableEnd = 4102444800L

  /**
   * Times that have one offset each: the first period's until the first start, and so on. The one
   * that was asked for last is likely to be asked for again.
   */
  final private class Periods(offsets: Array[Long], starts: Array[Long]) {
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

  private def asMicros(offset: ZoneOffset): Long = offset.getTotalSeconds * Micros.PerSecond

  /** Seconds since 1970-01-01 as microseconds since 2000-01-01, and the other way round. */
  private def micros(epochSecond: Long): Long = (epochSecond + UnixEpoch) * Micros.PerSecond

  private def epochSecond(micros: Long): Long =
    Math.floorDiv(micros, Micros.PerSecond) - UnixEpoch

  private val UnixEpoch = CivilDate.UnixEpoch * (Micros.PerDay / Micros.PerSecond)
}
