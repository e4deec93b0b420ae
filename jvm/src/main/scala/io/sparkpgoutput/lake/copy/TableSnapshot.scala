package io.sparkpgoutput.lake.copy

import java.sql.SQLException
import java.time.Duration
import java.util.UUID
import java.util.concurrent.{ConcurrentLinkedDeque, TimeUnit}

import scala.annotation.tailrec
import scala.util.Try

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.catalog.{PublishedTables, QuotedName, SourceTable, TableError}
import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.source.connection.{
  ConnectionError,
  Connections,
  ReplicationConnection,
  ServerAddress,
  ServerConnection,
  SqlState
}
import io.sparkpgoutput.source.slot.ServerWait
import io.sparkpgoutput.source.table.PublishedRelations

/**
 * A snapshot of a table as of an LSN, which sees the transactions with lower commit LSNs and no
 * others. It is the snapshot of a new temporary slot, so its LSN is the slot's consistent point.
 *
 * TRUNCATE and a rewrite of the table do not keep the rows that an older snapshot sees. So this class locks
 * the table after it has made the snapshot. It then compares the catalog that the snapshot sees with the
 * current one. If they differ, it tries again with a newer snapshot.
 *
 * @param time when it was made, by the server's clock, in microseconds since 1970
 * @param shared lets other connections have the snapshot, as long as this is open
 * @param source the table as it is under the lock
 */
final private class TableSnapshot private (
    val lsn: Long,
    val time: Long,
    val shared: SharedSnapshot,
    val source: SourceTable,
    val connection: ServerConnection,
    giveBack: Option[() => Unit]
) {

  import TableSnapshot.LongestEnd

  /**
   * Gives up the snapshot and the locks. It does not wait long for the server, because a job can end in this way.
   *
   * @param isIdle whether nothing runs on the connection, so that the next snapshot can use it
   */
  def close(isIdle: Boolean): Unit = giveBack match {
    case Some(keep) if isIdle && Try(connection.execute("ROLLBACK", LongestEnd)).isSuccess => keep()
    case _ =>
      Try(connection.close())
      connection.abort()
  }
}

private object TableSnapshot {
  private val MostAttempts = 5
  private val LongestEnd = Duration.ofSeconds(5)
  private val SecondsToLock = 10

  /**
   * Makes a snapshot of a table.
   *
   * @param kept
   *   the table as it was found. If it has other columns, another key or other partitions now, this
   *   fails with PGOUTPUT_TABLE_CHANGED.
   * @param atMost how long to wait for transactions that are open; None for ever
   * @throws io.sparkpgoutput.source.slot.ServerStillWaits if they take longer
   */
  def make(
      from: CopySource,
      kept: SourceTable,
      connections: SnapshotConnections,
      atMost: Option[Duration]
  ): TableSnapshot = ConnectionError.explaining(from.address) {
    Iterator
      .continually {
        val connection = connections.walsenders.take()
        val giveBack = Some(() => connections.walsenders.give(connection))
        attempt(from, kept, connection, connections, atMost, giveBack)(
          SlotSnapshot.begin(from.address, connection)
        )
      }
      .take(MostAttempts)
      .collectFirst { case Some(made) => made }
      .getOrElse(throw CopySession.interrupted(
        kept.name,
        s"it was truncated, rewritten or altered while each of $MostAttempts snapshots was made."
      ))
  }

  /**
   * Opens a table in a snapshot that exists already. It waits 10 seconds for the lock.
   *
   * @param slot the snapshot, which must stay open
   * @throws LakeException if the files of the table are not those that the job knows
   */
  def join(slot: SlotSnapshot, from: CopySource, kept: SourceTable): TableSnapshot =
    ConnectionError.explaining(from.address) {
      val connection = CopySession.allRows(Connections.open(from.address, from.applicationName))
      val made = attempt(from, kept, connection, slot.connections, None, None) {
        CopySession.join(connection, slot.shared, kept.name, SecondsToLock)
        slot.lsn
      }.getOrElse(
        throw CopySession.interrupted(
          kept.name,
          "it was truncated, rewritten or altered after the snapshot was made."
        )
      )
      checkFiles(kept, made)
      made
    }

  /** The server sends no message for a TRUNCATE of a partition whose rows are sent as those of its root. */
  private def checkFiles(kept: SourceTable, made: TableSnapshot): Unit = {
    val files = kept.files.map(file => file.oid -> file.fileNode).toMap
    made.source.files.find(file => files.get(file.oid).exists(_ != file.fileNode)).foreach { file =>
      made.close(isIdle = false)
      val why = s"${file.name} was truncated or rewritten, and the job has not followed that yet."
      throw TableError.changed(kept.name, why)
    }
  }

  /**
   * Makes a snapshot, and returns None if the table was altered in this time.
   *
   * @param giveBack lets the next snapshot use the connection
   * @param begin gets the snapshot, and returns its LSN
   */
  private def attempt(
      from: CopySource,
      kept: SourceTable,
      connection: ServerConnection,
      connections: SnapshotConnections,
      atMost: Option[Duration],
      giveBack: Option[() => Unit]
  )(begin: => Long): Option[TableSnapshot] = connection.orAbort {
    connections.watchers.use { watcher =>
      val what = s"The server makes a snapshot of the table ${kept.name}"
      val (lsn, time) = ServerWait.watched(from.address, connection, what, atMost) {
        val made = begin -> now(connection)
        kept.files.foreach { file =>
          CopySession.lock(connection, s"ONLY ${QuotedName(file.name)}", kept.name)
        }
        made
      }
      // To read a row filter, the watcher waits for an ALTER TABLE, which waits for the lock of this
      // connection.
      CopySession.limitWaits(watcher, SecondsToLock)
      val source = CopySession.interruptible(kept.name)(sameTable(watcher, from, kept))
      if (definition(connection, from, kept) == definition(watcher, from, kept)) {
        val shared = CopySession.share(connection)
        Some(new TableSnapshot(lsn, time, shared, source, connection, giveBack))
      } else {
        connection.abort()
        None
      }
    }
  }

  private def now(connection: ServerConnection): Long = connection
    .query("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")(_.getLong(1)).head

  /** Finds the table, and checks that it is the one that was to be copied. */
  private def sameTable(watcher: ServerConnection, from: CopySource, kept: SourceTable) = {
    val found = PublishedTables.readOne(watcher, from.publications, kept.oid).getOrElse(
      throw new LakeException("PGOUTPUT_TABLE_CHANGED.NOT_PUBLISHED", "table" -> kept.name)
    )
    val now = from.hiding(found, Some(kept))
    if (shape(now) != shape(kept))
      throw TableError.changed(kept.name, "Its definition was altered before the copy began.")
    now
  }

  /** Returns the properties of the table that decide how it is copied. */
  private def shape(table: SourceTable) = (
    table.name,
    table.columns.map(column =>
      (column.number, column.name, column.typeId, column.modifier, column.hash)
    ),
    table.excluded.map(column => (column.number, column.name)),
    (table.key, table.identity, table.publish, table.rowFilter),
    table.files.map(file => (file.oid, file.name))
  )

  /**
   * The table, its partitions, their columns and files, and what the publications say about them, as the
   * snapshot of a connection sees them.
   */
  private def definition(
      connection: ServerConnection,
      from: CopySource,
      table: SourceTable
  ): Seq[String] =
    connection.query(
      """WITH RECURSIVE tree (oid) AS (
        |  SELECT ?::oid
        |  UNION SELECT inhrelid FROM pg_inherits i JOIN tree ON inhparent = tree.oid
        |  JOIN pg_class child ON child.oid = inhrelid AND child.relispartition
        |)
        |SELECT format('%s %s', c.oid, c.relfilenode) FROM tree JOIN pg_class c USING (oid)
        |UNION ALL
        |SELECT format('%s %s %s', a.attrelid, a.attnum, a.xmin)
        |FROM tree JOIN pg_attribute a ON a.attrelid = tree.oid AND a.attnum > 0
        |UNION ALL
        |SELECT format('%s %s %s %s', p.oid, p.xmin, r.oid, r.xmin)
        |FROM pg_publication p LEFT JOIN pg_publication_rel r ON prpubid = p.oid AND prrelid IN (
        |  SELECT oid FROM tree UNION SELECT relid FROM pg_partition_ancestors(?::oid)
        |)
        |WHERE pubname = ANY (?)
        |ORDER BY 1""".stripMargin,
      table.oid,
      table.oid,
      from.publications.toArray
    )(_.getString(1)) ++ schemas(connection, from)

  /** The schemas that the publications have. */
  private def schemas(connection: ServerConnection, from: CopySource): Seq[String] =
    if (connection.majorVersion < PublishedRelations.FirstWithSchemas) Nil
    else
      connection.query(
        "SELECT format('%s %s', n.oid, n.xmin) FROM pg_publication_namespace n " +
          "JOIN pg_publication p ON p.oid = pnpubid WHERE pubname = ANY (?) ORDER BY 1",
        from.publications.toArray
      )(_.getString(1))
}

/**
 * The connections of snapshots. A snapshot uses those of an earlier one if it can: to open a connection takes longer
 * than the queries on it.
 */
final class SnapshotConnections(from: CopySource) extends AutoCloseable {

  /** The connections that hold snapshots and locks. */
  private[copy] val walsenders =
    new IdleConnections(Connections.openReplication(from.address, from.applicationName))

  /** The connections that see the catalog as it is now. */
  private[copy] val watchers =
    new IdleConnections(Connections.open(from.address, from.applicationName))

  /** Ends the connections that are not in use. */
  override def close(): Unit = {
    walsenders.close()
    watchers.close()
  }
}

/** Connections that nobody uses now. */
final private class IdleConnections[T <: ServerConnection](open: => T) {
  import IdleConnections._

  final private class IdleConnection(val since: Long, val connection: T)
  private val all = new ConcurrentLinkedDeque[IdleConnection]

  def use[A](body: T => A): A = {
    val connection = take()
    val result = connection.orAbort(body(connection))
    give(connection)
    result
  }

  /** A connection that was used long ago can be lost, or lead to a server that is not the primary any more. */
  @tailrec def take(): T = {
    val found = all.poll()
    if (found == null) CopySession.allRows(open)
    else if (System.nanoTime() - found.since < Longest) found.connection
    else {
      found.connection.abort()
      take()
    }
  }

  def give(connection: T): Unit = all.push(new IdleConnection(System.nanoTime(), connection))

  def close(): Unit =
    Iterator.continually(all.poll()).takeWhile(_ != null).foreach(_.connection.abort())
}

private object IdleConnections {
  private val Longest = TimeUnit.SECONDS.toNanos(5)
}

/**
 * The snapshot of a temporary slot. It sees the transactions whose commit LSNs are below the slot's
 * consistent point, and no others. It lasts as long as it is open.
 *
 * @param shared lets other connections have the snapshot
 */
final class SlotSnapshot private (
    val lsn: Long,
    private[copy] val shared: SharedSnapshot,
    connection: ServerConnection,
    private[copy] val connections: SnapshotConnections
) extends AutoCloseable {
  override def close(): Unit = {
    connections.close()
    Try(connection.close())
    connection.abort()
  }
}

object SlotSnapshot {
  private val FirstWithOptions = 15

  /**
   * Makes a snapshot. The server waits for the end of all transactions that have written something.
   *
   * @param what what the server does, for warnings
   * @param atMost how long to wait
   * @throws ServerStillWaits if it takes longer
   */
  def make(
      from: CopySource,
      what: String,
      atMost: Duration
  ): SlotSnapshot = ConnectionError.explaining(from.address) {
    import from.address
    val connection =
      CopySession.allRows(Connections.openReplication(address, from.applicationName))
    connection.orAbort {
      val lsn =
        ServerWait.watched(address, connection, what, Some(atMost))(begin(address, connection))
      new SlotSnapshot(
        lsn,
        CopySession.share(connection),
        connection,
        new SnapshotConnections(from)
      )
    }
  }

  /**
   * Begins a transaction that has the snapshot of a new temporary slot, and drops the slot. The transaction
   * itself keeps the rows of the snapshot (`RestoreTransactionSnapshot` in `snapmgr.c`). The slot would
   * also keep all WAL for as long as the copy takes.
   *
   * @return the slot's consistent point
   */
  private[copy] def begin(address: ServerAddress, connection: ReplicationConnection): Long = {
    CopySession.begin(connection)
    val slot = s"spark_pgoutput_copy_${UUID.randomUUID().toString.replace("-", "")}"
    val snapshot =
      if (connection.majorVersion < FirstWithOptions) "USE_SNAPSHOT" else "(SNAPSHOT 'use')"
    try {
      val lsn = connection
        .query(s"CREATE_REPLICATION_SLOT $slot TEMPORARY LOGICAL pgoutput $snapshot")(row =>
          Lsn.parse(row.getString("consistent_point")).get
        )
        .head
      connection.query(s"SELECT pg_drop_replication_slot('$slot')")(_ => ())
      lsn
    } catch {
      case error: SQLException =>
        throw ConnectionError.ofCreation(error, address, slot)
    }
  }
}

/**
 * A snapshot that other connections can have. The server makes its name of counters that begin again when the server
 * starts. So after a restart, another snapshot can have the name, and only what it sees shows that.
 *
 * @param name what `SET TRANSACTION SNAPSHOT` takes
 * @param sees the transactions that it sees, as `pg_current_snapshot` shows them
 */
final private case class SharedSnapshot(name: String, sees: String)

/** The settings of the sessions of a copy, beside those that decide how values are written. */
private object CopySession {

  /** Makes a row-level policy an error, because it would hide rows. */
  def allRows[T <: ServerConnection](connection: T): T = connection.orAbort {
    connection.execute("SET row_security = off")
    connection
  }

  /**
   * Begins a transaction that sees the rows of its snapshot. It is read-only, because CREATE_REPLICATION_SLOT
   * needs that.
   */
  def begin(connection: ServerConnection): Unit =
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

  /**
   * Begins a transaction with the snapshot of another one.
   *
   * @param seconds how long it waits for a lock
   * @throws LakeException if the other transaction has ended
   */
  def join(
      connection: ServerConnection,
      snapshot: SharedSnapshot,
      table: TableName,
      seconds: Int
  ): Unit = {
    def lost = interrupted(table, "the connection that holds its snapshot has ended.")
    limitWaits(connection, seconds)
    begin(connection)
    try connection.execute(s"SET TRANSACTION SNAPSHOT '${snapshot.name}'")
    catch { case error: SQLException if LostSnapshot(error.getSQLState) => throw lost }
    if (seen(connection) != snapshot.sees) throw lost
  }

  /** Lets a connection wait for a lock for some seconds. */
  def limitWaits(connection: ServerConnection, seconds: Int): Unit =
    connection.execute(s"SET lock_timeout = '$seconds s'")

  /** Returns what [[join]] takes. */
  def share(connection: ServerConnection): SharedSnapshot = {
    val name = connection.query("SELECT pg_export_snapshot()")(_.getString(1)).head
    SharedSnapshot(name, seen(connection))
  }

  private def seen(connection: ServerConnection) =
    connection.query("SELECT pg_current_snapshot()::text")(_.getString(1)).head

  /**
   * Locks a table until the end of the transaction, so that nobody can truncate or rewrite it. LOCK
   * TABLE would need the right to read all columns.
   *
   * @throws LakeException
   *   if the wait for the lock has a limit, and takes longer, or if the table was dropped or
   *   renamed
   */
  def lock(connection: ServerConnection, from: String, table: TableName): Unit =
    try interruptible(table)(connection.query(s"SELECT FROM $from LIMIT 0")(_ => ())): Unit
    catch {
      case error: SQLException if isMissing(error.getSQLState) =>
        throw TableError.changed(table, s"The server has no $from any more.")
    }

  /** @throws LakeException if the wait for a lock takes longer than its limit */
  def interruptible[T](table: TableName)(body: => T): T =
    try body
    catch {
      case error: SQLException if error.getSQLState == SqlState.LockNotAvailable =>
        throw interrupted(
          table,
          "another session waits for a lock of the table, for example to truncate it, so the " +
            "copy releases its locks."
        )
    }

  /** @param reason a sentence that begins with a small letter */
  def interrupted(table: TableName, reason: String): LakeException =
    new LakeException("PGOUTPUT_COPY_INTERRUPTED", "table" -> table, "reason" -> reason)

  private val isMissing = Set(SqlState.UndefinedTable, SqlState.InvalidSchemaName)

  /** What the server says of a snapshot whose transaction has ended (`ImportSnapshot`). */
  private val LostSnapshot = Set(
    SqlState.InvalidParameterValue,
    SqlState.UndefinedObject,
    SqlState.NotInPrerequisiteState
  )
}
