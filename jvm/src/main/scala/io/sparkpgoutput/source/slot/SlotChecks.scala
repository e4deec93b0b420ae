package io.sparkpgoutput.source.slot

import org.apache.spark.sql.types.StructType

import io.sparkpgoutput.errors.SourceException
import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.source.SqlIdentifier
import io.sparkpgoutput.source.connection.{ReplicationConnection, ServerConnection}

/**
 * The checks before a slot is read. Each looks for a gap that the server would not report, or for
 * an error that it would report in other words, and throws a [[SourceException]].
 */
object SlotChecks {
  private val Plugin = "pgoutput"

  /** Checks that there is a slot that a query without a checkpoint can read. */
  def readable(state: Option[SlotState], server: Server, slot: String): SlotState =
    existing(state, server)(new SourceException(
      "PGOUTPUT_SLOT_NOT_FOUND.AT_FIRST_START",
      "slot" -> slot,
      "database" -> server.database,
      "literal" -> slot.replace("'", "''")
    ))

  private def existing(state: Option[SlotState], server: Server)(missing: => SourceException) = {
    val found = state.getOrElse(throw missing)
    checkKind(found, server)
    found
  }

  /**
   * Checks that all transactions from an LSN on can still be read from the slot.
   *
   * @param kept the source to which the query's checkpoint belongs
   * @param start the LSN up to which the query has everything
   */
  def beforeReading(
      state: Option[SlotState],
      server: Server,
      kept: SourceIdentity,
      start: Long
  ): SlotState = {
    kept.checkServer(server)
    val found = existing(state, server)(new SourceException(
      "PGOUTPUT_SLOT_NOT_FOUND.OF_CHECKPOINT",
      "slot" -> kept.slot,
      "lsn" -> Lsn.format(start)
    ))
    found.confirmedFlush.foreach(notMoved(kept.slot, start, _))
    // A standby that has started again can still replay what it had replayed before. It has the same history up to
    // there, because `timeline` refuses another one, and the server sends nothing before the replay gets to the start.
    if (!server.inRecovery) walEnd(kept.slot, start, found.flushLsn)
    found
  }

  /** Checks that a slot does not begin above what was read. */
  def notMoved(slot: String, start: Long, confirmed: Long): Unit =
    if (Lsn.isBelow(start, confirmed))
      throw new SourceException(
        "PGOUTPUT_SLOT_MOVED",
        "slot" -> slot,
        "confirmed" -> Lsn.format(confirmed),
        "read" -> Lsn.format(start)
      )

  /**
   * Checks that the WAL of the server does not end below what was read.
   *
   * @param flushLsn the end of the WAL, as in [[Server.flushLsn]]
   */
  def walEnd(slot: String, start: Long, flushLsn: Long): Unit =
    if (Lsn.isBelow(flushLsn, start))
      throw new SourceException(
        "PGOUTPUT_SERVER_BEHIND",
        "slot" -> slot,
        "read" -> Lsn.format(start),
        "end" -> Lsn.format(flushLsn)
      )

  /** Checks that a slot can be dropped and created again. It may be invalidated. */
  def replaceable(state: SlotState, server: Server): Unit = {
    checkPlace(state, server)
    checkLasts(state)
  }

  private def checkLasts(state: SlotState): Unit =
    if (state.temporary) throw new SourceException("PGOUTPUT_SLOT_TEMPORARY", "slot" -> state.name)

  private def checkPlace(state: SlotState, server: Server): Unit = {
    if (!state.plugin.contains(Plugin))
      throw new SourceException(
        "PGOUTPUT_SLOT_PLUGIN",
        "slot" -> state.name,
        "kind" -> state.plugin.fold("a physical slot")(plugin => s"of the output plugin $plugin")
      )
    if (!state.database.contains(server.database))
      throw new SourceException(
        "PGOUTPUT_SLOT_DATABASE.OF_SLOT",
        "slot" -> state.name,
        "database" -> state.database.getOrElse(""),
        "named" -> server.database
      )
    if (state.synced && server.inRecovery)
      throw new SourceException("PGOUTPUT_SLOT_SYNCHRONIZED", "slot" -> state.name)
  }

  private def checkKind(state: SlotState, server: Server): Unit = {
    checkPlace(state, server)
    if (state.isInvalidated)
      throw new SourceException(
        "PGOUTPUT_SLOT_INVALIDATED",
        "slot" -> state.name,
        "reason" -> state.invalidationReason.fold("")(reason => s" ($reason)"),
        "loss" -> state.confirmedFlush.fold("")(lsn =>
          s". Its changes after the LSN ${Lsn.format(lsn)} are lost"
        ),
        "prevention" -> prevention(state)
      )
    checkLasts(state)
    if (state.twoPhase) throw new SourceException("PGOUTPUT_SLOT_TWO_PHASE", "slot" -> state.name)
    if (state.confirmedFlush.isEmpty)
      throw new SourceException(
        "PGOUTPUT_SLOT_NOT_READY",
        "slot" -> state.name,
        "holder" ->
          state.holder.fold("")(holder => s" by the process ${holder.pid} of the server")
      )
  }

  /** The setting that keeps the server from invalidating the slot again. */
  private def prevention(state: SlotState) = state.invalidationReason match {
    case Some("idle_timeout")           => "Set idle_replication_slot_timeout to a greater value."
    case Some("wal_level_insufficient") => "Set wal_level to logical on the primary server."
    case Some("rows_removed")           => "Set hot_standby_feedback to on at the standby."
    case _                              => "Set max_slot_wal_keep_size to a greater value."
  }

  /**
   * Checks that the server has all that was read: it is on the timeline that was read last, or on one
   * that branched off from it at the start or above.
   *
   * @param kept the timelines that were accepted, in order; the last is the one that was read
   * @param end the end of the batch that is read, if the checkpoint does not get the timelines before the batch is done
   * @return the timelines for the checkpoint, with the server's as the last one
   */
  def timeline(
      connection: ReplicationConnection,
      server: Server,
      kept: Seq[Int],
      start: Long,
      end: Option[Long] = None
  ): Seq[Int] =
    if (kept.last == server.timeline) kept
    else TimelineHistory.read(connection, server.timeline).continued(kept, start, end)

  /**
   * Checks that the publications exist. PostgreSQL 18 skips a missing one without an error.
   *
   * @return
   *   the oids of the publications: a publication that was dropped and made again has another one
   */
  def publications(connection: ServerConnection, names: Seq[String]): Map[String, Long] = {
    val existing = connection
      .query("SELECT pubname, oid::bigint FROM pg_publication")(row =>
        row.getString(1) -> row.getLong(2)
      )
      .toMap
    val missing = names.filterNot(existing.contains)
    if (missing.nonEmpty)
      throw new SourceException(
        "PGOUTPUT_PUBLICATION_NOT_FOUND.AT_START",
        "missing" -> (missing match {
          case Seq(one) => s"The publication '$one' does not exist"
          case several =>
            s"The publications ${several.map(name => s"'$name'").mkString(", ")} do not exist"
        }),
        "statements" -> missing
          .map(name => s"CREATE PUBLICATION ${SqlIdentifier(name)} FOR TABLE …")
          .mkString("; ")
      )
    names.map(name => name -> existing(name)).toMap
  }
}

/**
 * The identity of a source, which its checkpoint keeps. A later start checks that it reads the same
 * history.
 *
 * @param id a UUID, by which the sessions of the source recognize each other
 * @param timelines the timelines that were accepted, in order; the last is the one that was read
 * @param publications the names of the publications, with their oids
 * @param firstLsn the start of the first batch
 */
final case class SourceIdentity(
    id: String,
    systemIdentifier: String,
    timelines: Seq[Int],
    database: String,
    slot: String,
    publications: Map[String, Long],
    firstLsn: Long,
    schema: StructType
) {

  /**
   * Checks that a start of the query has the same slot as the checkpoint.
   *
   * The list of publications can change, because it is an ordinary operation to publish another table with
   * a new publication. (ALTER PUBLICATION is another one, which no reader can notice.) If a batch runs again
   * after the change, it is read with the new list.
   *
   * @param publications what [[SlotChecks.publications]] returns
   * @return a warning, if the publications are others than before
   */
  def check(server: Server, slot: String, publications: Map[String, Long]): Option[String] = {
    checkServer(server)
    if (slot != this.slot)
      throw new SourceException("PGOUTPUT_OTHER_SLOT", "kept" -> this.slot, "slot" -> slot)
    checkPublications(publications)
    Option.when(publications != this.publications)(
      s"The query read the publications ${names(this.publications)} of the slot '$slot' before, and " +
        s"now reads ${names(publications)}. Changes of tables that only the new list has come from " +
        "now on; their earlier changes are not in the stream. PostgreSQL 18 leaves out a change that " +
        "is older than all publications of the new list that have its table. If there can be such " +
        "changes, stop the query, start it with the old list until it has read them, and then change " +
        "the list."
    )
  }

  private def names(publications: Map[String, Long]) = publications.keys.toSeq.sorted.mkString(", ")

  /**
   * Checks that no publication was dropped and made again, which only its oid shows. PostgreSQL 18
   * leaves out the changes in between without an error. Ask for the publications after the LSN up to
   * which the slot is read. If they have the same oids then, they existed all the time.
   */
  def checkPublications(now: Map[String, Long]): Unit = {
    val others = publications.collect { case (name, oid) if now.get(name).exists(_ != oid) => name }
    others.minOption.foreach(name =>
      throw new SourceException(
        "PGOUTPUT_PUBLICATION_MADE_AGAIN",
        "publication" -> name,
        "slot" -> slot
      )
    )
  }

  /**
   * Returns whether columns are those that the query started with. Their comments do not count: `varchar(9)`
   * can become `varchar(10)`.
   */
  def hasColumns(now: StructType): Boolean =
    now.map(column => column.name -> column.dataType) ==
      schema.map(column => column.name -> column.dataType)

  /** Checks that a server is the server of the checkpoint, or a copy of it. */
  private[slot] def checkServer(server: Server): Unit = {
    if (server.systemIdentifier != systemIdentifier)
      throw new SourceException(
        "PGOUTPUT_OTHER_SERVER",
        "kept" -> systemIdentifier,
        "found" -> server.systemIdentifier
      )
    if (server.database != database)
      throw new SourceException(
        "PGOUTPUT_SLOT_DATABASE.OF_CHECKPOINT",
        "database" -> database,
        "named" -> server.database
      )
  }
}
