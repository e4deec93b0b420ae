package io.sparkpgoutput.lake.copy

import java.sql.SQLException
import java.util.UUID

import scala.util.Try

import io.sparkpgoutput.lake.table.{PublishedTables, QuotedName, SourceTable, TableError}
import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.source.connection.{
  ConnectionError,
  Connections,
  ReplicationConnection,
  ServerAddress,
  ServerConnection
}
import io.sparkpgoutput.source.slot.{ServerWait, SlotError}

/**
 * A snapshot of a table as of an LSN, which sees the transactions with lower commit LSNs and no others.
 * It is that of a new temporary slot, so its LSN is the slot's consistent point.
 *
 * TRUNCATE, and what rewrites a table, do not keep the rows that an older snapshot sees. So the table
 * is locked after the snapshot is made, and the catalog as the snapshot sees it must be that of now. If
 * it is not, the next attempt has a newer snapshot.
 *
 * @param time
 *   when it was made, by the server's clock, in microseconds since 1970
 * @param id
 *   what `SET TRANSACTION SNAPSHOT` takes, as long as this is open
 * @param source
 *   the table as it is under the lock
 */
final private class TableSnapshot private (
    val lsn: Long,
    val time: Long,
    val id: String,
    val source: SourceTable,
    val connection: ReplicationConnection
) extends AutoCloseable {
  override def close(): Unit = {
    Try(connection.close())
    connection.abort()
  }
}

private object TableSnapshot {
  private val MostAttempts = 5
  private val FirstWithOptions = 15

  /**
   * Makes a snapshot of a table.
   *
   * @param kept
   *   the table as it was found. If it has other columns, another key or other partitions now, this
   *   fails with PGOUTPUT_TABLE_CHANGED.
   */
  def make(
      address: ServerAddress,
      applicationName: String,
      publications: Seq[String],
      kept: SourceTable
  ): TableSnapshot = ConnectionError.explaining(address) {
    Iterator
      .continually(attempt(address, applicationName, publications, kept))
      .take(MostAttempts)
      .collectFirst { case Some(made) => made }
      .getOrElse(throw CopyError.interrupted(
        kept.name,
        s"it was truncated, rewritten or altered while each of $MostAttempts snapshots was made."
      ))
  }

  private def attempt(
      address: ServerAddress,
      applicationName: String,
      publications: Seq[String],
      kept: SourceTable
  ): Option[TableSnapshot] = {
    val connection =
      CopySession.unlimited(Connections.openReplication(address, applicationName))
    val watcher = CopySession.unlimited(Connections.open(address, applicationName))
    try {
      val what = s"The server makes a snapshot of the table ${kept.name}"
      val (lsn, time) = ServerWait.watched(address, connection, what) {
        CopySession.begin(connection)
        val made = createSlot(address, connection) -> now(connection)
        kept.files.foreach { file =>
          CopySession.lock(connection, s"ONLY ${QuotedName(file.name)}")
        }
        made
      }
      val source =
        sameTable(kept, PublishedTables.read(watcher, publications, watcher.majorVersion))
      if (definition(connection, kept) == definition(watcher, kept)) {
        val id = connection.query("SELECT pg_export_snapshot()")(_.getString(1)).head
        Some(new TableSnapshot(lsn, time, id, source, connection))
      } else {
        connection.abort()
        None
      }
    } catch {
      case error: Throwable =>
        connection.abort()
        throw error
    } finally watcher.abort()
  }

  /** Makes a temporary slot, whose snapshot the transaction then has. Returns its consistent point. */
  private def createSlot(address: ServerAddress, connection: ReplicationConnection): Long = {
    val slot = s"spark_pgoutput_copy_${UUID.randomUUID().toString.replace("-", "")}"
    val snapshot =
      if (connection.majorVersion < FirstWithOptions) "USE_SNAPSHOT" else "(SNAPSHOT 'use')"
    try
      connection
        .query(s"CREATE_REPLICATION_SLOT $slot TEMPORARY LOGICAL pgoutput $snapshot")(row =>
          Lsn.parse(row.getString("consistent_point")).get
        )
        .head
    catch {
      case error: SQLException =>
        throw ConnectionError.ofSetup(error, address).getOrElse(SlotError.notCreated(slot, error))
    }
  }

  private def now(connection: ServerConnection): Long = connection
    .query("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")(_.getLong(1)).head

  /** Finds the table, and checks that it is the one that was to be copied. */
  private def sameTable(kept: SourceTable, tables: Seq[SourceTable]): SourceTable = {
    val now = tables.find(_.oid == kept.oid).getOrElse(
      throw TableError.changed(kept, "The publications do not send it any more.")
    )
    if (shape(now) != shape(kept))
      throw TableError.changed(kept, "Its definition was altered before the copy began.")
    now
  }

  /** What decides how the table is copied. */
  private def shape(table: SourceTable) = (
    table.name,
    table.columns.map(column => (column.number, column.name, column.typeId, column.modifier)),
    (table.key, table.identity, table.publish, table.rowFilter),
    table.files.map(file => (file.oid, file.name))
  )

  /** The table, its partitions and their columns and files, as the snapshot of a connection sees them. */
  private def definition(connection: ServerConnection, table: SourceTable): Seq[String] =
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
        |ORDER BY 1""".stripMargin,
      table.oid
    )(_.getString(1))
}
