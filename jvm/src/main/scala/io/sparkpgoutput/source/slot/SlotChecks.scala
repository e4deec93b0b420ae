package io.sparkpgoutput.source.slot

import io.sparkpgoutput.source.connection.{ReplicationConnection, ServerConnection}

/**
 * The checks before a slot is read. Each looks for a gap that the server would not tell about, or for
 * an error that it would tell in other words, and throws a [[io.sparkpgoutput.source.SourceException]].
 */
object SlotChecks {
  private val Plugin = "pgoutput"

  /** Checks that there is a slot that a query without a checkpoint can read. */
  def readable(state: Option[SlotState], server: Server, slot: String): SlotState = {
    val found = state.getOrElse(throw SlotError.notFound(slot, server))
    checkKind(found, server)
    found
  }

  /**
   * Checks that all transactions from an LSN on can still be read from the slot.
   *
   * @param kept
   *   the source that the query's checkpoint is of
   * @param start
   *   the LSN up to which the query has everything
   */
  def beforeReading(
      state: Option[SlotState],
      server: Server,
      kept: SourceIdentity,
      start: Long
  ): SlotState = {
    kept.checkServer(server)
    val found = state.getOrElse(throw SlotError.gone(kept, start))
    checkKind(found, server)
    found.confirmedFlush
      .filter(java.lang.Long.compareUnsigned(_, start) > 0)
      .foreach(confirmed => throw SlotError.moved(kept.slot, start, confirmed))
    if (java.lang.Long.compareUnsigned(start, found.flushLsn) > 0)
      throw SlotError.serverBehind(kept.slot, start, found.flushLsn)
    found
  }

  private def checkKind(state: SlotState, server: Server): Unit = {
    if (!state.plugin.contains(Plugin)) throw SlotError.plugin(state)
    if (!state.database.contains(server.database)) throw SlotError.database(state, server)
    if (state.isInvalidated) throw SlotError.invalidated(state)
    if (state.temporary) throw SlotError.temporary(state)
    if (state.twoPhase) throw SlotError.twoPhase(state)
  }

  /**
   * Checks that the server has all that was read: it is on the timeline that was read last, or on one
   * that branched off from it at the start or above.
   *
   * @return
   *   the timelines for the checkpoint, with the server's as the last one
   */
  def timeline(
      connection: ReplicationConnection,
      server: Server,
      kept: SourceIdentity,
      start: Long
  ): Seq[Int] =
    if (kept.timelines.last == server.timeline) kept.timelines
    else {
      val history =
        if (server.timeline == 1) TimelineHistory(Map.empty)
        else TimelineHistory.read(connection, server.timeline)
      timeline(history, server.timeline, kept, start)
    }

  private[slot] def timeline(
      history: TimelineHistory,
      timeline: Int,
      kept: SourceIdentity,
      start: Long
  ): Seq[Int] =
    history.switches.get(kept.timelines.last) match {
      case Some(switch) if java.lang.Long.compareUnsigned(start, switch) <= 0 =>
        kept.timelines :+ timeline
      case switch => throw SlotError.timeline(kept, timeline, switch, start)
    }

  /** Checks that the publications exist. PostgreSQL 18 skips a missing one without an error. */
  def publications(connection: ServerConnection, names: Seq[String]): Unit = {
    val existing = connection.query("SELECT pubname FROM pg_publication")(_.getString(1)).toSet
    val missing = names.filterNot(existing)
    if (missing.nonEmpty) throw SlotError.publicationsNotFound(missing)
  }
}
