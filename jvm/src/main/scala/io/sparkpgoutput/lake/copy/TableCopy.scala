package io.sparkpgoutput.lake.copy

import java.time.Duration

import org.apache.spark.SparkContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.catalyst.util.QuotingUtils.quoteIdentifier
import org.apache.spark.sql.functions.{
  array,
  col,
  lit,
  monotonically_increasing_id,
  timestamp_micros
}
import org.apache.spark.sql.pgoutput.{LocalRows, RowsOfRdd}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{Column, DataFrame, SparkSession}

import io.sparkpgoutput.changes.rows.ChangeType
import io.sparkpgoutput.lake.catalog.{ColumnHiding, MirroredTable, ReplicaIdentity, TableMode}
import io.sparkpgoutput.source.connection.{ConnectionError, ServerAddress}
import io.sparkpgoutput.types.ConversionOptions

/**
 * A copy of a table: its rows as of an LSN. All transactions with a lower commit LSN are in the rows, and
 * no others are, so the changes with that LSN and higher ones follow.
 *
 * While it is open, a connection to the server holds the snapshot and a lock on the table. Readers and
 * writers go on. TRUNCATE, VACUUM FULL and most forms of ALTER TABLE wait for the end of the copy, and delay
 * all sessions that come after them, also tasks of this copy. A task does not wait long for them: the copy
 * then fails with PGOUTPUT_COPY_INTERRUPTED, and must be started again with a new snapshot. So such a
 * statement waits for the tasks that run, and not for the whole copy.
 */
final class TableCopy private (
    source: CopySource,
    mirrored: MirroredTable,
    snapshot: TableSnapshot
) extends AutoCloseable {
  import source.address

  @volatile private var watch = Option.empty[CopyWatch]

  /** What the driver has read of a small table. */
  @volatile private var local = Option.empty[CopyProgress]

  /** The commits with a lower LSN are in the copy. */
  val lsn: Long = snapshot.lsn

  /** When the snapshot was made, by the server's clock, in microseconds since 1970. */
  val time: Long = snapshot.time

  /** The table as the copy found it. The job compares later states of the table with it. */
  val table: MirroredTable = mirrored.copy(source = snapshot.source)

  /** The description of the jobs that read the rows, for Spark's UI. */
  val description: String = s"copy of ${table.source.name}"

  /** Returns the progress of the tasks that read the rows. */
  def progress: CopyProgress = watch.fold(nothing)(_.progress)

  /** Returns the counts of what was read to its end. */
  def copied: CopyProgress = local.orElse(watch.map(_.ended)).getOrElse(nothing)

  private def nothing = CopyProgress(table.source.name.toString, 0, 0, 0)

  private lazy val sizes =
    ConnectionError.explaining(address)(table.source.files.map(LeafSize.of(snapshot.connection, _)))

  /** Whether the driver has room for all rows. */
  def isSmall: Boolean = sizes.map(_.bytes).sum <= TableCopy.SmallBytes

  /** Returns the rows, which can be read until this is closed. They have the table's schema. */
  def rows(session: SparkSession): DataFrame =
    RowsOfRdd.toDataFrame(session, read(session.sparkContext), table.schema)

  /** When the snapshot was made. */
  def at: Column = timestamp_micros(lit(time))

  /** Returns the rows for a table of the target that has none yet, with the columns of a mode. */
  def newRows(session: SparkSession, mode: TableMode): DataFrame =
    rows(session).select(col("*") +: TableCopy.added(mode, lsn, at).map { case (name, value) =>
      value.as(name)
    }: _*)

  /**
   * Returns the rows as a history has them: a snapshot just before the first change that follows.
   *
   * @param isFirst
   *   false puts a truncate before them, because the history has the rows of an earlier copy
   */
  def historyRows(session: SparkSession, history: MirroredTable, isFirst: Boolean): DataFrame = {
    val ordinal = monotonically_increasing_id() + 1
    val snapshot =
      rows(session).select(col("*") +: change(TableMode.History.Snapshot, ordinal): _*)
    def truncate = LocalRows
      .toDataFrame(session, Vector(new GenericInternalRow(history.schema.length)), history.schema)
      .select(col("*") +: change(ChangeType.Truncate.name, lit(0)): _*)
    val all = if (isFirst) snapshot else truncate.unionAll(snapshot)
    all.toDF(history.targetSchema.fieldNames.toIndexedSeq: _*)
  }

  private def change(changeType: String, ordinal: Column): Seq[Column] = {
    val source = table.source
    val keys = source.columns.map(_.name)
      .filter(name => source.identity == ReplicaIdentity.Full || source.key.contains(name))
    val none = lit(null)
    Seq(
      lit(changeType),
      lit(lsn - 1),
      at,
      none,
      none,
      ordinal,
      array(keys.map(lit(_)): _*),
      array()
    )
      .zip(TableMode.History.fields).map { case (value, field) => value.cast(field.dataType) }
  }

  /**
   * Reads the rows of a small table on the connection that holds the snapshot. To run a Spark job takes longer than to
   * read them.
   *
   * @param columns the columns of the target, whose types can be wider
   */
  def localRows(session: SparkSession, columns: StructType): IndexedSeq[InternalRow] = {
    var bytes = 0L
    val rows = CopyRange.of(sizes, 1).flatMap { range =>
      val reader = new CopyReader(settings, range, Some(snapshot.connection))
      val ofRange = reader.map(_.copy()).toIndexedSeq
      bytes += reader.readBytes
      ofRange
    }.toIndexedSeq
    local = Some(CopyProgress(table.source.name.toString, rows.size.toLong, bytes, share = 1))
    if (DataTypeUtils.sameType(columns, RowsOfRdd.withTexts(table.schema))) rows
    else {
      val ofMode = TableCopy.added(table.mode, lsn, at).toMap
      val cast = columns.map { to =>
        val value = ofMode.getOrElse(to.name, col(quoteIdentifier(to.name)))
        value.cast(to.dataType).as(to.name)
      }
      RowsOfRdd.of(LocalRows.toDataFrame(session, rows, table.schema).select(cast: _*))
        .map(_.copy()).collect().toIndexedSeq
    }
  }

  private def settings =
    CopySettings(source.copy(address = address.forTasks), snapshot.shared, table)

  private def read(context: SparkContext): CopyRDD = {
    val ranges = CopyRange.of(sizes, context.defaultParallelism)
    val counts = new CopyCounts(context, table.source.name)
    val before = watch
    watch = Some(new CopyWatch(context, table.source.name, counts, ranges.map(_.bytes).sum))
    before.foreach(_.close())
    new CopyRDD(context, settings, ranges, counts)
  }

  /** Gives up the snapshot and the lock. Tasks that still run fail, or end with all of their rows. */
  override def close(): Unit = {
    watch.foreach(_.close())
    snapshot.close(isIdle = local.nonEmpty)
  }
}

object TableCopy {

  /** TOASTed values are compressed at the server, some of them to a hundredth. */
  final private val SmallBytes = 1L << 20

  /** The columns of a mode, with their values in the rows of a copy. A version begins just before the LSN. */
  def added(mode: TableMode, lsn: Long, at: Column): Seq[(String, Column)] =
    mode.columns.map { field =>
      val value = field.name match {
        case TableMode.Versions.FromLsn       => lit(lsn - 1)
        case TableMode.Versions.FromTimestamp => at
        case TableMode.Versions.IsCurrent     => lit(true)
        case _                                => lit(null)
      }
      field.name -> value.cast(field.dataType)
    }

  /**
   * Makes the snapshot. It waits for the end of all transactions that have written something, and logs
   * for which.
   *
   * @param atMost how long to wait; None for ever
   * @throws io.sparkpgoutput.source.slot.ServerStillWaits if it takes longer
   */
  def open(
      source: CopySource,
      table: MirroredTable,
      connections: SnapshotConnections,
      atMost: Option[Duration]
  ): TableCopy = new TableCopy(
    source,
    table,
    TableSnapshot.make(source, table.source, connections, atMost)
  )

  /** Reads a table in a snapshot that exists already, and must stay open. */
  def join(slot: SlotSnapshot, source: CopySource, table: MirroredTable): TableCopy =
    new TableCopy(source, table, TableSnapshot.join(slot, source, table.source))
}

/**
 * The server and the publications from which tables are copied.
 *
 * @param applicationName what `pg_stat_activity` shows
 * @param publications the publications, which say which rows and columns of a table are copied
 * @param options how values are read
 * @param hiding the columns that are left out or hashed
 */
final case class CopySource(
    address: ServerAddress,
    applicationName: String,
    publications: Seq[String],
    options: ConversionOptions = ConversionOptions(),
    hiding: ColumnHiding = ColumnHiding()
)
