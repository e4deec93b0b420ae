package io.sparkpgoutput.lake.copy

import org.apache.spark.SparkContext
import org.apache.spark.sql.pgoutput.RowsOfRdd
import org.apache.spark.sql.{DataFrame, SparkSession}

import io.sparkpgoutput.lake.table.MirroredTable
import io.sparkpgoutput.source.connection.{ConnectionError, ServerAddress}
import io.sparkpgoutput.types.ConversionOptions

/**
 * A first copy of a table: its rows as of an LSN. All transactions with a lower commit LSN are in the
 * rows, and no others are, so the changes with that LSN and higher ones follow.
 *
 * While it is open, a connection to the server holds the snapshot and a lock on the table. Readers and
 * writers go on. TRUNCATE, VACUUM FULL and most forms of ALTER TABLE wait for the end of the copy, and
 * hold up all who come after them, tasks of this copy too. A task does not wait long for them: the copy
 * then fails with PGOUTPUT_COPY_INTERRUPTED, and must be started again with a new snapshot. So such a
 * statement waits for the tasks that run, and not for the whole copy.
 */
final class TableCopy private (
    address: ServerAddress,
    applicationName: String,
    mirrored: MirroredTable,
    snapshot: TableSnapshot,
    options: ConversionOptions
) extends AutoCloseable {
  @volatile private var counts = Option.empty[TableCopy.Counts]

  /** The commits with a lower LSN are in the copy. */
  val lsn: Long = snapshot.lsn

  /** When the snapshot was made, by the server's clock, in microseconds since 1970. */
  val time: Long = snapshot.time

  /** The table as the copy found it, for what is compared later. */
  val table: MirroredTable = mirrored.copy(source = snapshot.source)

  /** What Spark's UI can show for the jobs that read the rows. */
  val description: String = s"first copy of ${table.source.name}"

  /** The rows and the bytes of the tasks that have ended. */
  def copiedRows: Long = counts.fold(0L)(_.rows.sum)
  def copiedBytes: Long = counts.fold(0L)(_.bytes.sum)

  /** Returns the rows, which can be read until this is closed. They have the table's schema. */
  def rows(session: SparkSession): DataFrame = ConnectionError.explaining(address) {
    val context = session.sparkContext
    val ranges = CopyRange.of(snapshot.connection, table.source.files, context.defaultParallelism)
    val counted = new TableCopy.Counts(context, table.source.name.toString)
    counts = Some(counted)
    val settings = CopySettings(address, applicationName, snapshot.id, table, options)
    val rdd = new CopyRDD(context, settings, ranges, counted.rows, counted.bytes)
    RowsOfRdd.toDataFrame(session, rdd, table.schema)
  }

  /** Gives up the snapshot and the lock. Tasks that still run fail, or end with all of their rows. */
  override def close(): Unit = snapshot.close()
}

object TableCopy {

  /**
   * Makes the snapshot. It waits for the end of all transactions that have written something, and logs
   * for which.
   *
   * @param applicationName
   *   what `pg_stat_activity` shows
   */
  def open(
      address: ServerAddress,
      applicationName: String,
      publications: Seq[String],
      table: MirroredTable,
      options: ConversionOptions
  ): TableCopy = new TableCopy(
    address,
    applicationName,
    table,
    TableSnapshot.make(address, applicationName, publications, table.source),
    options
  )

  /** Reads a table in a snapshot that is there, and must stay open. */
  def join(
      slot: SlotSnapshot,
      address: ServerAddress,
      applicationName: String,
      publications: Seq[String],
      table: MirroredTable,
      options: ConversionOptions
  ): TableCopy = new TableCopy(
    address,
    applicationName,
    table,
    TableSnapshot.join(slot, address, applicationName, publications, table.source),
    options
  )

  final private class Counts(context: SparkContext, table: String) {
    val rows = context.longAccumulator(s"rows of $table")
    val bytes = context.longAccumulator(s"bytes of $table")
  }
}
