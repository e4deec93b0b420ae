package io.sparkpgoutput.types

import java.time.{Instant, LocalDateTime, ZoneId, ZoneOffset}
import java.util.Arrays

/**
 * How far a time zone is ahead of UTC, in microseconds, by java.time's rules.
 *
 * Times are in microseconds since 2000-01-01 00:00:00. The zone's transitions up to a year not far
 * ahead are in a table; later times are rare, and left to java.time.
 */
final private[sparkpgoutput] class ZoneOffsets(zone: ZoneId) {
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

  private val starts = transitions.map(at => micros(at.getInstant.getEpochSecond))

  private val localStarts = transitions.map { at =>
    val later = math.max(at.getOffsetBefore.getTotalSeconds, at.getOffsetAfter.getTotalSeconds)
    micros(at.getInstant.getEpochSecond + later)
  }

  /** At a time in UTC. */
  def ofUtc(time: Long): Long =
    if (time < tableEnd) offsets(position(starts, time))
    else asMicros(rules.getOffset(Instant.ofEpochSecond(epochSecond(time))))

  /**
   * At a wall clock's time. One that is skipped or comes twice, as clocks are set, is taken to have
   * the offset from before that: as Spark casts TIMESTAMP_NTZ to TIMESTAMP.
   */
  def ofLocal(time: Long): Long =
    if (time < tableEnd) offsets(position(localStarts, time))
    else {
      val local = LocalDateTime.ofEpochSecond(epochSecond(time), 0, ZoneOffset.UTC)
      asMicros(rules.getOffset(local))
    }
}

private object ZoneOffsets {

  /** 2100-01-01, in seconds since 1970-01-01. */
  private val TableEnd = 4102444800L

  /** How many of the times, which are sorted, are not after this one. */
  private def position(times: Array[Long], time: Long): Int =
    if (times.length == 0) 0
    else {
      val found = Arrays.binarySearch(times, time)
      if (found >= 0) found + 1 else -found - 1
    }

  private def asMicros(offset: ZoneOffset): Long = offset.getTotalSeconds * Micros.PerSecond

  /** Seconds since 1970-01-01 as microseconds since 2000-01-01, and the other way round. */
  private def micros(epochSecond: Long): Long =
    epochSecond * Micros.PerSecond + CivilDate.UnixEpoch * Micros.PerDay

  private def epochSecond(micros: Long): Long =
    Math.floorDiv(
      micros,
      Micros.PerSecond
    ) - CivilDate.UnixEpoch * (Micros.PerDay / Micros.PerSecond)
}
