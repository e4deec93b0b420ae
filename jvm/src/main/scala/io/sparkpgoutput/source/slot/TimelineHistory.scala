package io.sparkpgoutput.source.slot

import io.sparkpgoutput.source.connection.ReplicationConnection

/**
 * The ancestors of a timeline. Each failover of a server begins a new timeline.
 *
 * @param switches the LSN at which each ancestor was left, by its number
 * @see PostgreSQL documentation, "Timelines"
 */
final case class TimelineHistory(switches: Map[Int, Long])

object TimelineHistory {
  private val Line = """\s*(\d+)\s+([0-9A-Fa-f]+/[0-9A-Fa-f]+).*""".r

  /** Asks for the history of a timeline, which has a number greater than 1. */
  def read(connection: ReplicationConnection, timeline: Int): TimelineHistory =
    parse(connection.query(s"TIMELINE_HISTORY $timeline")(_.getString("content")).head)

  /**
   * Parses a history file. A line has the number of a timeline, the LSN at which it was left, and the
   * reason. Empty lines and comments have none (`readTimeLineHistory`).
   */
  def parse(content: String): TimelineHistory = TimelineHistory(content.linesIterator.collect {
    case Line(timeline, lsn) => timeline.toInt -> SlotState.lsn(lsn)
  }.toMap)
}
