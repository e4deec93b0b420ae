package io.sparkpgoutput.source.slot

import java.sql.ResultSet
import java.time.Duration

import com.fasterxml.jackson.databind.ObjectMapper

import io.sparkpgoutput.errors.SourceException
import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.source.connection.ServerConnection

/**
 * The state of a slot at one moment, as the server reports it.
 *
 * @param plugin None for a physical slot, which has no database either
 * @param synced whether a standby copied the slot from its primary server, from PostgreSQL 17 on
 * @param restartLsn the oldest WAL that the slot needs; None if the slot is invalidated
 * @param confirmedFlush the server sends no transaction with a lower commit LSN any more
 * @param walStatus reserved, extended, unreserved or lost
 * @param safeWalSize
 *   the bytes of WAL that can still be written before the slot is lost; None without a limit
 * @param invalidationReason why the slot is lost, from PostgreSQL 17 on
 * @param holder the walsender that has the slot in use
 * @param flushLsn the end of the server's WAL, as in [[Server.flushLsn]]
 * @param maxSlotWalKeepSize the bytes that a slot can hold back; None without a limit
 * @param oldestTransaction
 *   the process and the age of the oldest open transaction that writes. The server shows it only to
 *   a role with the rights of `pg_read_all_stats`, except for the role's own transactions.
 * @param standbySlots `synchronized_standby_slots`, from PostgreSQL 17 on
 */
final case class SlotState(
    name: String,
    plugin: Option[String],
    database: Option[String],
    temporary: Boolean,
    twoPhase: Boolean,
    synced: Boolean,
    restartLsn: Option[Long],
    confirmedFlush: Option[Long],
    walStatus: Option[String],
    safeWalSize: Option[Long],
    invalidationReason: Option[String],
    holder: Option[SlotHolder],
    flushLsn: Long,
    maxSlotWalKeepSize: Option[Long],
    oldestTransaction: Option[OldestTransaction],
    standbySlots: Option[String]
) {

  /** The bytes of WAL that the server keeps for the slot. */
  def retainedWal: Option[Long] = restartLsn.map(flushLsn - _)

  /** Returns whether the server has removed WAL that the slot needs. */
  def isInvalidated: Boolean = walStatus.contains("lost") || invalidationReason.isDefined
}

/**
 * The oldest open transaction that writes.
 *
 * @param process its process, or the name of a prepared transaction, as a human-readable text
 */
final case class OldestTransaction(process: String, age: Duration)

object SlotState {

  private val mapper = new ObjectMapper

  /** The columns of `pg_replication_slots` differ from version to version, so they are read as JSON. */
  private val Query =
    s"""SELECT slot.j::text AS slot,
       |  coalesce(holder.application_name, '') AS application_name,
       |  holder.wait_event AS wait_event,
       |  walsender.replay_lsn::text AS apply_lsn,
       |  (${Server.FlushLsn})::text AS flush_lsn,
       |  nullif(pg_size_bytes(current_setting('max_slot_wal_keep_size')), -1)::text AS keep_size,
       |  oldest.process AS oldest_process,
       |  extract(epoch FROM clock_timestamp() - oldest.start)::bigint::text AS oldest_age,
       |  nullif(current_setting('synchronized_standby_slots', true), '') AS standby_slots
       |FROM (SELECT to_jsonb(s) AS j FROM pg_replication_slots s WHERE s.slot_name = ?) AS slot
       |LEFT JOIN pg_stat_activity holder ON holder.pid = (slot.j->>'active_pid')::int
       |LEFT JOIN pg_stat_replication walsender ON walsender.pid = (slot.j->>'active_pid')::int
       |LEFT JOIN (
       |  SELECT 'the process ' || pid AS process, xact_start AS start
       |  FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND xact_start IS NOT NULL
       |  UNION ALL
       |  SELECT 'the prepared transaction ' || quote_literal(gid), prepared FROM pg_prepared_xacts
       |  ORDER BY start LIMIT 1
       |) AS oldest ON true""".stripMargin

  /** Asks for a slot, in one round trip. None if there is no such slot. */
  def read(connection: ServerConnection, slot: String): Option[SlotState] =
    connection.query(Query, slot) { row =>
      val columns = mapper.readTree(row.getString("slot"))
      def column(name: String) = Option(columns.path(name).asText(null))
      def flag(name: String) = columns.path(name).asBoolean
      SlotState(
        name = slot,
        plugin = column("plugin"),
        database = column("database"),
        temporary = flag("temporary"),
        twoPhase = flag("two_phase"),
        synced = flag("synced"),
        restartLsn = column("restart_lsn").map(lsn),
        confirmedFlush = column("confirmed_flush_lsn").map(lsn),
        walStatus = column("wal_status"),
        safeWalSize = column("safe_wal_size").map(_.toLong),
        invalidationReason = column("invalidation_reason")
          .orElse(Option.when(flag("conflicting"))("a conflict with recovery")),
        holder = column("active_pid").map(pid => holder(row, pid.toInt)),
        flushLsn = lsn(row.getString("flush_lsn")),
        maxSlotWalKeepSize = text(row, "keep_size").map(_.toLong),
        oldestTransaction = text(row, "oldest_process").map { process =>
          OldestTransaction(process, Duration.ofSeconds(row.getString("oldest_age").toLong))
        },
        standbySlots = text(row, "standby_slots")
      )
    }.headOption

  private def holder(row: ResultSet, pid: Int) = SlotHolder(
    pid,
    row.getString("application_name"),
    text(row, "apply_lsn").map(lsn),
    text(row, "wait_event")
  )

  private def text(row: ResultSet, column: String): Option[String] = Option(row.getString(column))

  private[slot] def lsn(text: String): Long =
    Lsn.parse(text).getOrElse(throw new IllegalStateException(s"'$text' is not an LSN"))
}

/**
 * The walsender that has a slot in use.
 *
 * @param applyLsn
 *   `replay_lsn` of `pg_stat_replication`; None without the rights of `pg_read_all_stats`, or if the
 *   client has not sent one
 * @param waitEvent what the process waits for; None if it does not wait, or another role runs it
 */
final case class SlotHolder(
    pid: Int,
    applicationName: String,
    applyLsn: Option[Long],
    waitEvent: Option[String]
) {

  /** The error of a reader that finds the slot in use. */
  def error(slot: String): SourceException = new SourceException(
    "PGOUTPUT_SLOT_IN_USE.BY_ANOTHER",
    "slot" -> slot,
    "pid" -> pid,
    "application" -> applicationName
  )
}
