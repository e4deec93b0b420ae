package io.sparkpgoutput.source.slot

import java.time.Duration
import java.util.concurrent.atomic.AtomicBoolean

import scala.annotation.tailrec

import org.apache.spark.internal.Logging

import io.sparkpgoutput.errors.SourceException
import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.source.connection.{ReplicationConnection, ServerConnection}

/**
 * A server, as it describes itself.
 *
 * @param systemIdentifier
 *   the number that initdb gave to the cluster; its standbys and copies have the same
 * @param timeline the timeline of the server; on a standby, the timeline of the WAL that it replays
 * @param majorVersion such as 18
 * @param walBlockSize the size of a page of WAL in bytes
 * @param inRecovery whether the server is a standby
 * @param started when its process started, as a text
 */
final case class Server(
    systemIdentifier: String,
    timeline: Int,
    database: String,
    majorVersion: Int,
    walBlockSize: Int,
    inRecovery: Boolean,
    started: String
)

object Server extends Logging {
  val OldestVersion = 14
  private val NewestVersion = 18
  private val hasWarned = new AtomicBoolean

  /** Asks the server. Fails if the server is older than PostgreSQL 14. */
  def of(connection: ReplicationConnection): Server = {
    // IDENTIFY_SYSTEM knows a standby's timeline. SQL has only that of its last checkpoint.
    val (systemIdentifier, timeline, database) = connection.query("IDENTIFY_SYSTEM")(row =>
      (row.getString("systemid"), row.getInt("timeline"), row.getString("dbname"))
    ).head
    val version = connection.majorVersion
    checkVersion(version)
    connection.query(
      "SELECT current_setting('wal_block_size')::int AS block_size, " +
        "pg_is_in_recovery() AS in_recovery, pg_postmaster_start_time()::text AS started"
    ) { row =>
      Server(
        systemIdentifier,
        timeline,
        database,
        version,
        row.getInt("block_size"),
        row.getBoolean("in_recovery"),
        row.getString("started")
      )
    }.head
  }

  /** Fails if a version is too old, and warns once if a version is newer than those that were tried. */
  private[slot] def checkVersion(major: Int): Unit = {
    if (major < OldestVersion) throw new SourceException(
      "PGOUTPUT_SERVER_VERSION.TOO_OLD",
      "version" -> major,
      "oldest" -> OldestVersion
    )
    if (major > NewestVersion && hasWarned.compareAndSet(false, true))
      logWarning(
        s"The server has PostgreSQL $major. This version of spark-pgoutput was tried with PostgreSQL " +
          s"$OldestVersion to $NewestVersion."
      )
  }

  def isStandby(connection: ServerConnection): Boolean =
    connection.query("SELECT pg_is_in_recovery()")(_.getBoolean(1)).head

  /** The server's expression for the end of the WAL that a slot can be read to. */
  private[slot] val FlushLsn =
    "CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END"

  /** Returns the end of the WAL that is safe on disk. On a standby, it is the end of the replay. */
  def flushLsn(connection: ServerConnection): Long =
    connection.query(s"SELECT ($FlushLsn)::text")(row => SlotState.lsn(row.getString(1))).head
}

/** The end of the WAL, for a reader that ends there. */
object WalEnd {
  private val Limit = Duration.ofSeconds(10)
  final private val PauseMillis = 10L

  /**
   * Returns an LSN below which there is all that was committed before the call. A session gets to it at once. A reader
   * at this LSN has consumed every complete transaction in the slot, as `pg_upgrade` asks for.
   */
  def next(connection: ServerConnection): Long =
    flushed(connection, committed(connection), System.nanoTime() + Limit.toNanos)

  /**
   * Returns an LSN below which there is all that was committed before the call, also what is not flushed yet, as with
   * `synchronous_commit = off`. The flushed end of the WAL can lie inside a record, which can stay unfinished for 10
   * seconds. So this writes a transaction without changes, and returns the end of a record after it.
   *
   * A standby cannot write. There, it is the end of the replay, and the primary's next record passes it.
   */
  def committed(connection: ServerConnection): Long =
    if (Server.isStandby(connection)) Server.flushLsn(connection)
    else {
      connection.query("SELECT txid_current()")(_ => ())
      written(connection)
    }

  private def written(connection: ServerConnection): Long = connection.query(
    "SELECT pg_current_wal_insert_lsn()::text, current_setting('wal_block_size')::int, " +
      "(SELECT setting::bigint FROM pg_settings WHERE name = 'wal_segment_size')"
  )(row =>
    WalRecords.endBefore(SlotState.lsn(row.getString(1)), row.getInt(2), row.getLong(3))
  ).head

  /** Waits until the WAL is flushed up to an LSN. The WAL writer of the server does this every 200 ms by default. */
  @tailrec
  private def flushed(connection: ServerConnection, lsn: Long, deadline: Long): Long = {
    val end = Server.flushLsn(connection)
    if (!Lsn.isBelow(end, lsn)) lsn
    else if (System.nanoTime() > deadline) end
    else {
      Thread.sleep(PauseMillis)
      flushed(connection, lsn, deadline)
    }
  }
}

/**
 * The history of a timeline. Each failover of a server begins a new timeline.
 *
 * @param ancestors the LSN at which each earlier timeline was left, by its number
 * @see PostgreSQL documentation, "Timelines"
 */
final case class TimelineHistory(timeline: Int, ancestors: Map[Int, Long]) {

  /** Adds the timeline to those that were accepted, with the checks and the parameters of [[SlotChecks.timeline]]. */
  def continued(kept: Seq[Int], start: Long, end: Option[Long]): Seq[Int] =
    ancestors.get(kept.last) match {
      case Some(switch) if Lsn.isBelow(switch, start) =>
        throw new SourceException(
          "PGOUTPUT_TIMELINE.BRANCHED_OFF",
          "timeline" -> timeline,
          "last" -> kept.last,
          "switch" -> Lsn.format(switch),
          "lsn" -> Lsn.format(start)
        )
      case Some(switch) if end.exists(Lsn.isBelow(switch, _)) =>
        throw new SourceException(
          "PGOUTPUT_TIMELINE.PROMOTED",
          "timeline" -> timeline,
          "switch" -> Lsn.format(switch),
          "end" -> Lsn.format(end.get)
        )
      case Some(_) => kept :+ timeline
      case None =>
        throw new SourceException(
          "PGOUTPUT_TIMELINE.OTHER_HISTORY",
          "timeline" -> timeline,
          "last" -> kept.last,
          "lsn" -> Lsn.format(start)
        )
    }
}

object TimelineHistory {
  private val Line = """\s*(\d+)\s+([0-9A-Fa-f]+/[0-9A-Fa-f]+).*""".r

  /** Asks for the history of a timeline. The first timeline has none. */
  def read(connection: ReplicationConnection, timeline: Int): TimelineHistory = TimelineHistory(
    timeline,
    if (timeline == 1) Map.empty
    else parse(connection.query(s"TIMELINE_HISTORY $timeline")(_.getString("content")).head)
  )

  /**
   * Parses a history file. A line has the number of a timeline, the LSN at which it was left, and the
   * reason. Empty lines and comments have none (`readTimeLineHistory`).
   */
  def parse(content: String): Map[Int, Long] = content.linesIterator.collect {
    case Line(timeline, lsn) => timeline.toInt -> SlotState.lsn(lsn)
  }.toMap
}
