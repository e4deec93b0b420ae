package io.sparkpgoutput.source.slot

import java.sql.SQLException

import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.source.{SourceException, SqlIdentifier}

/** The errors of slots, servers and publications. Each says what is lost, if anything, and what to do. */
private[sparkpgoutput] object SlotError {
  final val Moved = "PGOUTPUT_SLOT_MOVED"

  /** The slot comes first: it keeps the changes that are made while the tables are copied. */
  private val Again =
    "Make a new slot, copy the tables again, and start the query with a new checkpoint. For a job of " +
      "replicate, run spark-pgoutput resync --all, and start the job."

  final private val UndefinedObject = "42704"
  final private val InvalidParameter = "22023"

  def serverVersion(server: Server, oldest: Int): SourceException = new SourceException(
    "PGOUTPUT_SERVER_VERSION",
    "0A000",
    s"The server has PostgreSQL ${server.majorVersion}. Reading a slot needs PostgreSQL $oldest or " +
      "later. Upgrade the server."
  )

  def notFound(slot: String, server: Server): SourceException = new SourceException(
    "PGOUTPUT_SLOT_NOT_FOUND",
    "42704",
    s"The server has no slot '$slot'. Set the option createSlot to true, or run in the database " +
      s"'${server.database}': SELECT pg_create_logical_replication_slot('${literal(slot)}', 'pgoutput')."
  )

  def gone(kept: SourceIdentity, start: Long): SourceException = new SourceException(
    "PGOUTPUT_SLOT_NOT_FOUND",
    "42704",
    s"The server has no slot '${kept.slot}' any more. The query has all transactions below the LSN " +
      s"${Lsn.format(start)}. The server does not keep the changes after it, so they are lost. $Again"
  )

  def notReady(state: SlotState): SourceException = new SourceException(
    "PGOUTPUT_SLOT_NOT_READY",
    "55000",
    s"The slot '${state.name}' is being made" +
      state.holder.fold("")(holder => s" by the process ${holder.pid} of the server") +
      ", which waits for the end of all transactions that are open. Try again when it is ready."
  )

  def invalidated(state: SlotState): SourceException = new SourceException(
    "PGOUTPUT_SLOT_INVALIDATED",
    "55000",
    s"The server has invalidated the slot '${state.name}'" +
      state.invalidationReason.fold("")(reason => s" ($reason)") +
      state.confirmedFlush.fold("")(lsn =>
        s". Its changes after the LSN ${Lsn.format(lsn)} are lost"
      ) +
      s". ${preventive(state)} $Again"
  )

  /** The setting that keeps the server from invalidating the slot again. */
  private def preventive(state: SlotState) = state.invalidationReason match {
    case Some("idle_timeout")           => "Set idle_replication_slot_timeout to a greater value."
    case Some("wal_level_insufficient") => "Set wal_level to logical on the primary server."
    case Some("rows_removed")           => "Set hot_standby_feedback to on at the standby."
    case _                              => "Set max_slot_wal_keep_size to a greater value."
  }

  def moved(slot: String, start: Long, confirmed: Long): SourceException = new SourceException(
    Moved,
    "55000",
    s"The slot '$slot' begins at the LSN ${Lsn.format(confirmed)}, but the query has read only up to " +
      s"${Lsn.format(start)}. Somebody else has read or moved the slot, or has made it again, or the " +
      "checkpoint is an old copy. The transactions between the two are missing, and the slot cannot " +
      s"give them any more. $Again"
  )

  def serverBehind(slot: String, start: Long, flush: Long): SourceException = new SourceException(
    "PGOUTPUT_SERVER_BEHIND",
    "55000",
    s"The query has read the slot '$slot' up to the LSN ${Lsn.format(start)}, but the WAL of the server " +
      s"ends at ${Lsn.format(flush)}. The server was restored from a backup, or is a standby that lacks " +
      "the end of the WAL. The query has changes that the server does not have. If the server is a " +
      "standby, start again when it has caught up. Otherwise, connect to the right server. If this is " +
      s"the right one: $Again"
  )

  def plugin(state: SlotState): SourceException = new SourceException(
    "PGOUTPUT_SLOT_PLUGIN",
    "55000",
    s"The slot '${state.name}' is " +
      state.plugin.fold("a physical slot")(plugin => s"of the output plugin $plugin") +
      ". Name a logical slot of the plugin pgoutput."
  )

  def database(state: SlotState, server: Server): SourceException = new SourceException(
    "PGOUTPUT_SLOT_DATABASE",
    "55000",
    s"The slot '${state.name}' belongs to the database '${state.database.getOrElse("")}', but the URL " +
      s"names '${server.database}'. Name the slot's database in the URL, or another slot."
  )

  def synchronized(state: SlotState): SourceException = new SourceException(
    "PGOUTPUT_SLOT_SYNCHRONIZED",
    "55000",
    s"The slot '${state.name}' is a copy that the standby keeps for a failover, so nobody can read it " +
      "there. Connect to the primary server: with several hosts in the URL, add " +
      "targetServerType=primary."
  )

  def temporary(state: SlotState): SourceException = new SourceException(
    "PGOUTPUT_SLOT_TEMPORARY",
    "55000",
    s"The slot '${state.name}' is temporary, so only the session that made it can read it. Name a " +
      "slot that is not temporary."
  )

  def twoPhase(state: SlotState): SourceException = new SourceException(
    "PGOUTPUT_SLOT_TWO_PHASE",
    "55000",
    s"The slot '${state.name}' sends a prepared transaction at PREPARE TRANSACTION, before its commit, " +
      "because its two_phase is true. Make a slot without two_phase."
  )

  def otherServer(kept: SourceIdentity, server: Server): SourceException = new SourceException(
    "PGOUTPUT_OTHER_SERVER",
    "55000",
    s"The checkpoint is of the server with the system identifier ${kept.systemIdentifier}, but the URL " +
      s"leads to ${server.systemIdentifier}. Their LSNs have nothing in common. Connect to the server " +
      "of the checkpoint, or start with a new checkpoint. For a job of replicate, run spark-pgoutput " +
      "resync --all, and start the job."
  )

  def otherDatabase(kept: SourceIdentity, server: Server): SourceException = new SourceException(
    "PGOUTPUT_SLOT_DATABASE",
    "55000",
    s"The checkpoint is of the database '${kept.database}', but the URL names '${server.database}'. " +
      "Use the URL that the query had before, or start with a new checkpoint."
  )

  def otherSlot(kept: SourceIdentity, slot: String): SourceException = new SourceException(
    "PGOUTPUT_OTHER_SLOT",
    "55000",
    s"The checkpoint is of the slot '${kept.slot}', but the option slot is '$slot'. Each slot has its " +
      "own position. Name the slot of the checkpoint, or start with a new checkpoint."
  )

  def timeline(
      last: Int,
      timeline: Int,
      switch: Option[Long],
      start: Long
  ): SourceException = {
    val branch =
      switch.fold(s"does not descend from timeline $last, which the query read last")(lsn =>
        s"branched off from timeline $last at the LSN ${Lsn.format(lsn)}"
      )
    new SourceException(
      "PGOUTPUT_TIMELINE",
      "55000",
      s"The server is on timeline $timeline, which $branch. The query has read up to the LSN " +
        s"${Lsn.format(start)} on timeline $last, so it can have changes that this server lost in a " +
        s"failover. Connect to the right server. If this is the right one: $Again"
    )
  }

  def publicationsNotFound(names: Seq[String]): SourceException = publicationNotFound(
    (if (names.length == 1) s"The publication '${names.head}' does not exist. "
     else s"The publications ${quoted(names)} do not exist. ") +
      "Before the first change that you want to read, run: " +
      s"${names.map(name => s"CREATE PUBLICATION ${SqlIdentifier(name)} FOR TABLE …").mkString("; ")}, " +
      "or the same with FOR ALL TABLES. If somebody has dropped a publication that was read before, the " +
      "server does not send the changes since then, even if you make the publication again."
  )

  def publicationMadeAgain(slot: String, name: String): SourceException = new SourceException(
    "PGOUTPUT_PUBLICATION_MADE_AGAIN",
    "55000",
    s"The publication '$name' was dropped and made again since the query began to read the slot " +
      s"'$slot'. The server does not send the changes in between, so they are lost. $Again If you do " +
      "not need them, make a publication with another name, and set the option publication to it."
  )

  /**
   * Explains an error of the server while it sends changes. PostgreSQL 14 to 17 look up the
   * publications as of each change. To make a publication again does not help.
   */
  def whileReading(error: Throwable): Throwable = error match {
    case missing: SQLException if missing.getSQLState == UndefinedObject =>
      publicationNotFound(
        s"A publication did not exist when a table was changed, so the server cannot send the change: " +
          s"${text(missing)}. If you have changed the option publication, set it back, and change it when " +
          "the query has read the change. If the publication was made after the slot, make a new slot " +
          "and start the query with a new checkpoint. If it was dropped since, its changes are lost. " +
          Again
      )
    case invalid: SQLException if isOfValue(invalid) =>
      new SourceException(
        "PGOUTPUT_CONNECTION",
        invalid.getSQLState,
        s"The server cannot send a change of the slot: ${text(invalid)}. It fails at this change again at " +
          "each start. If the error is in the row filter of a publication, correct the filter. If the " +
          s"database has text that is not valid in UTF-8, correct the text. $Again"
      )
    case other => other
  }

  /** Returns whether an error is in the text of a value, or in a row filter. */
  private def isOfValue(error: SQLException) =
    Option(error.getSQLState).exists(state => state.startsWith("22") && state != InvalidParameter)

  /** 55000 is PostgreSQL's object_not_in_prerequisite_state. */
  private def publicationNotFound(text: String) =
    new SourceException("PGOUTPUT_PUBLICATION_NOT_FOUND", "42704", text)

  def noFailover(version: Int, first: Int): SourceException = new SourceException(
    "PGOUTPUT_SERVER_VERSION",
    "0A000",
    s"The option failover needs PostgreSQL $first or later, and the server has PostgreSQL $version. " +
      "Leave the option out."
  )

  def notCreated(slot: String, error: SQLException): SourceException = new SourceException(
    "PGOUTPUT_SLOT_NOT_CREATED",
    "55000",
    s"The server did not make the slot '$slot': ${text(error)}. Correct what the server names, and start " +
      "again."
  )

  private def quoted(names: Seq[String]) = names.map(name => s"'$name'").mkString(", ")

  /** The server's text and its hint on one line. */
  private def text(error: SQLException) = error.getMessage.replaceAll("\\s*\n\\s*", " ")

  private def literal(text: String) = text.replace("'", "''")
}
