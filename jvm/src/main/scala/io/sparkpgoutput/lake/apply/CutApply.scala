package io.sparkpgoutput.lake.apply

import java.util.Locale
import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.pgoutput.{ClonedSession, FreedStorage, LocalRows, RowsOfRdd}
import org.apache.spark.sql.types.{StringType, StructField, StructType}
import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.storage.StorageLevel

import io.sparkpgoutput.lake.catalog.MirroredTable
import io.sparkpgoutput.lake.core.MarkName
import io.sparkpgoutput.lake.direct.{KeyColumn, NotDirect}
import io.sparkpgoutput.lake.fold.{ChangeFold, FoldFormat, FoldedColumns}
import io.sparkpgoutput.lake.queue.{CutLimit, CutMessages}
import io.sparkpgoutput.lake.route.{
  ChangeChunk,
  ChangeFields,
  ChangePacker,
  ChangeView,
  CutRouter,
  RoutedTable,
  TableStatistics
}
import io.sparkpgoutput.lake.target.{
  DeltaPartitionText,
  LakeFormat,
  TablePlace,
  Target,
  TargetError,
  TargetLook,
  TargetWrite
}
import io.sparkpgoutput.types.ConversionOptions

/**
 * Applies cuts of tables' queues to the tables of a target. Each cut is one commit with the net effect of
 * its changes and with its mark. Commits to several tables can run side by side.
 *
 * The driver folds a small cut by itself: the jobs that would do it take longer than the fold. Executors
 * fold a large one.
 *
 * @param repairs
 *   true takes a change that does not fit the target and counts it; false makes it the table's error
 * @param options how values are read
 * @param smallCut the most changes that the driver folds by itself
 * @param mixed the last step of a hash of a key: see [[io.sparkpgoutput.lake.direct.KeyLookup]]
 * @param mostOld the most bytes of values of the target that the driver has in memory for a direct write
 */
final class CutApply(
    target: Target,
    repairs: Boolean,
    options: ConversionOptions = ConversionOptions(),
    smallCut: Long = CutApply.SmallCut,
    mixed: Long => Long = KeyColumn.mixed,
    mostOld: Long = CutApply.MostOld
) {
  import CutApply._

  /** The limit of a cut that is written directly, because the driver has it in memory. */
  private val direct = CutLimit(SmallBytes, math.min(DirectChanges, smallCut * 10))

  /** The tables whose last cut was small enough to be written directly, and was written by a query. */
  private val lastQueried = ConcurrentHashMap.newKeySet[String]

  /** The tables whose next cut has the limit of the user, because the last one was written by a query. */
  private val wide = ConcurrentHashMap.newKeySet[String]

  /** Whether small cuts of a table are written directly. */
  private def isDirect(table: MirroredTable) = !table.isHistory && table.source.key.nonEmpty &&
    target.look(table.target).notDirect.isEmpty

  /**
   * Returns the limit of the next cut of a table. A long queue is written directly in several cuts, because a MERGE
   * of one large cut takes more CPU than all of them. If such a cut was not written directly, the next cut has the
   * limit of the user. The cut after that has the limit of direct writes again. Otherwise, one large transaction would
   * make all later cuts large, because the queue grows during a MERGE.
   *
   * @param queue the bytes and the changes of its queue
   * @param most the limit that the user has set
   */
  def limit(table: MirroredTable, queue: CutLimit, most: CutLimit): CutLimit =
    if (direct.allows(queue.bytes, queue.changes) || !isDirect(table)) most
    else if (lastQueried.remove(table.target)) {
      wide.add(table.target)
      most
    } else {
      wide.remove(table.target)
      CutLimit(math.min(most.bytes, direct.bytes), direct.changes)
    }

  /**
   * Commits a cut. If it fails, the error belongs to the table, and nothing of the cut is in the table.
   *
   * @param session a session whose settings the commit has, and which it does not change
   * @param formerNames the column of the target for each name at the server that is not the target's
   * @param expected
   *   the mark that the table has. Changes below it are in the table already, and are left out. If nothing is
   *   left, nothing is committed.
   */
  def commit(
      session: SparkSession,
      table: MirroredTable,
      formerNames: Map[String, String],
      mark: MarkName,
      expected: Long,
      cut: CutMessages
  ): CutResult =
    try {
      val isSmall = cut.changes <= smallCut && cut.bytes <= SmallBytes
      val isFolded = isSmall || direct.allows(cut.bytes, cut.changes) && isDirect(table)
      def large(reason: Option[String]) =
        new LargeCut(session, mark, expected, cut, reason).run(table, formerNames)
      val done =
        if (!isFolded) large(None)
        else
          try new SmallCut(session, mark, expected, cut, isSmall).run(table, formerNames)
          catch { case found: NotDirect => large(Some(found.reason)) }
      if (isFolded && done.byMerge.isEmpty) lastQueried.remove(table.target)
      else if (!wide.contains(table.target)) lastQueried.add(table.target)
      done
    } catch { case NonFatal(thrown) => throw Drift.error(table.source.name, thrown) }

  /** One commit. */
  abstract private class OneCut(
      session: SparkSession,
      mark: MarkName,
      expected: Long,
      cut: CutMessages
  ) {

    /** The session of the queries of this commit only, because the mark is one of its settings. */
    protected lazy val own: SparkSession = sessionOf(session, isSmall)

    protected def isSmall: Boolean

    /** Takes the rows of the changes. */
    protected def packer: ChangePacker

    /** Commits the rows that the packer has. */
    protected def write(batch: TableBatch, look: TargetLook): WrittenCut

    protected def commitWrite(batch: TableBatch, session: SparkSession)(write: TargetWrite): Unit =
      target.commit(session, batch.table.target, mark, Some(expected), cut.end)(write)

    /** Commits a query. */
    protected def query(batch: TableBatch, byMerge: Option[String])(
        plan: => PlannedWrite
    ): WrittenCut = ClonedSession.within(own) {
      val planned = plan
      commitWrite(batch, own)(planned.write)
      WrittenCut(planned.repaired, byMerge)
    }

    /** Forgets the rows that the packer has, and frees what they need. */
    protected def clear(): Unit

    def run(table: MirroredTable, formerNames: Map[String, String]): CutResult =
      try {
        val rows = packer
        val router = new CutRouter(RoutedTable.of(table, expected, formerNames), rows.add)
        cut.foreach(router.take)
        rows.flush()
        router.statistics.fold(CutResult.nothing)(commit(table, formerNames, _))
      } finally clear()

    private def commit(
        table: MirroredTable,
        formerNames: Map[String, String],
        statistics: TableStatistics
    ): CutResult = {
      val look = target.look(table.target)
      val others = otherColumns(look.schema, table)
      val format = FoldFormat.of(
        table,
        formerNames,
        statistics,
        options,
        !repairs,
        droppedColumns(others, table, formerNames),
        // If deleted rows are marked, a row that is inserted again keeps the values of users' columns.
        splitsReplaced =
          !table.isHistory && !table.marks && !table.hasVersions && others.nonEmpty
      )
      val batch = new TableBatch(own, target, table, statistics, format, repairs)
      try {
        val written = write(batch, look)
        CutResult(
          statistics.changes,
          written.repaired,
          statistics.lastCommit,
          committed = true,
          written.byMerge
        )
      } finally batch.close()
    }
  }

  /**
   * A cut that the driver folds.
   *
   * @param canMerge whether the driver gives the rows to a MERGE; if not, executors fold the cut again
   */
  final private class SmallCut(
      session: SparkSession,
      mark: MarkName,
      expected: Long,
      cut: CutMessages,
      canMerge: Boolean
  ) extends OneCut(session, mark, expected, cut) {
    private val chunks = mutable.ArrayBuffer.empty[Array[Byte]]
    protected val packer = new ChangePacker(SmallBytes.toInt, chunks += _)
    protected def isSmall: Boolean = true

    protected def write(batch: TableBatch, look: TargetLook): WrittenCut = {
      val rows = batch.rows(ChangeChunk.sorted(chunks.iterator))
      def merge(reason: Option[String]) = query(batch, reason)(batch.plan(rows))
      if (batch.format.isHistory || batch.format.key.isEmpty || batch.statistics.truncated.nonEmpty)
        merge(None)
      else
        try {
          look.notDirect.foreach(reason => throw new NotDirect(reason))
          val direct = new DirectWrite(batch, rows, look.schema, mixed, mostOld)
          commitWrite(batch, session)(TargetWrite.Direct(direct.plan))
          WrittenCut(direct.repaired, None)
        } catch { case found: NotDirect if canMerge => merge(Some(found.reason)) }
    }

    protected def clear(): Unit = chunks.clear()
  }

  final private class LargeCut(
      session: SparkSession,
      mark: MarkName,
      expected: Long,
      cut: CutMessages,
      byMerge: Option[String]
  ) extends OneCut(session, mark, expected, cut) {
    private val shipped = new ShippedChanges(own)
    protected def isSmall: Boolean = false
    protected def packer: ChangePacker = shipped.packer
    protected def write(batch: TableBatch, look: TargetLook): WrittenCut =
      query(batch, byMerge)(batch.plan(shipped.sorted()))
    protected def clear(): Unit = shipped.close()
  }

  /** The columns that only the target has: those of users, and those that the server has dropped. */
  private def otherColumns(current: StructType, table: MirroredTable): Seq[StructField] = {
    val ours = table.targetSchema.fieldNames.map(_.toLowerCase(Locale.ROOT)).toSet
    current.filterNot(field => ours(field.name.toLowerCase(Locale.ROOT)))
  }

  /**
   * The columns that the server has dropped, and that a history still has. Earlier changes have their
   * values.
   */
  private def droppedColumns(
      others: Seq[StructField],
      table: MirroredTable,
      formerNames: Map[String, String]
  ): Seq[StructField] = {
    val dropped = formerNames.values.toSet
    if (table.isHistory)
      others.filter(field => dropped(field.name)).map(field =>
        StructField(field.name, field.dataType)
      )
    else Nil
  }
}

object CutApply {

  /** The most changes of a small cut, and its most bytes. */
  final val SmallCut = 10000L
  final private val SmallBytes = 16L << 20

  /** The most changes of a cut that is written directly. */
  final private val DirectChanges = 100000L

  /**
   * The most bytes of old values that a direct write puts into the new images of rows. By default, four tables are
   * committed at the same time. So these values take a fifth of a heap of 1 GB, beside four times [[SmallBytes]].
   */
  final private val MostOld = 48L << 20

  /**
   * A small cut has few rows to shuffle, so adaptive execution would only make jobs of its stages. With a
   * small `maxNumItems`, a filter of keys would compute thousands of hashes of each key.
   */
  private def sessionOf(session: SparkSession, isSmall: Boolean): SparkSession = {
    val made = ClonedSession.of(session)
    made.conf.set("spark.sql.adaptive.enabled", !isSmall)
    if (isSmall) {
      val tasks = 2 * session.sparkContext.defaultParallelism
      made.conf.set(Partitions, math.min(made.conf.get(Partitions).toInt, tasks).toLong)
    }
    Seq("maxNumItems", "maxNumBits").foreach { limit =>
      made.conf.unset(s"spark.sql.optimizer.runtime.bloomFilter.$limit")
    }
    made
  }

  final private val Partitions = "spark.sql.shuffle.partitions"
}

/**
 * The result of a cut.
 *
 * @param changes the changes that the server sent, without those that the table had
 * @param repaired the number of rows of the target that the changes did not fit
 * @param lastCommit
 *   the time of the last commit at the server with a change of the table, in microseconds since 1970
 * @param committed false if the table had all changes, so nothing was committed
 * @param byMerge why a cut that could have been written directly was written by a MERGE
 */
final case class CutResult(
    changes: Long,
    repaired: Long,
    lastCommit: Long,
    committed: Boolean,
    byMerge: Option[String] = None
)

object CutResult {
  val nothing: CutResult = CutResult(0, 0, 0, committed = false)

  /** The result of one cut that was committed to several tables. */
  def of(results: Seq[CutResult]): CutResult = results.reduce((one, other) =>
    CutResult(
      math.max(one.changes, other.changes),
      one.repaired + other.repaired,
      math.max(one.lastCommit, other.lastCommit),
      one.committed || other.committed,
      one.byMerge.orElse(other.byMerge)
    )
  )
}

/**
 * The changes of a table in a cut, and the table in the target.
 *
 * @param own the session of this commit only, which is made if it is needed
 * @param repairs true takes a change that does not fit the target, false makes it an error
 */
final class TableBatch(
    own: => SparkSession,
    target: Target,
    val table: MirroredTable,
    val statistics: TableStatistics,
    val format: FoldFormat,
    val repairs: Boolean
) {
  lazy val session: SparkSession = own

  /** The rows of the target before the cut. */
  private lazy val current: DataFrame = target.read(session, table.target)

  private val checkpoints = mutable.ArrayBuffer.empty[DataFrame]

  /** Returns the write for changes in arrays of [[ChangeChunk]]. */
  def plan(chunks: RDD[Array[Byte]]): PlannedWrite = plan(folded(chunks))

  /** Folds changes that the driver has, in the order of [[ChangeView]]. */
  def rows(changes: Array[ChangeView]): IndexedSeq[InternalRow] =
    ChangeFold.of(format, changes.iterator).map(_.copy()).toIndexedSeq

  /** Returns the write for rows of the fold. */
  def plan(rows: IndexedSeq[InternalRow]): PlannedWrite =
    plan(LocalRows.toDataFrame(session, rows, ChangeFold.schema(format)))

  private def plan(folded: DataFrame): PlannedWrite =
    if (format.isHistory) {
      val columns = StructType(format.schema ++ table.mode.columns).fieldNames.toIndexedSeq
      PlannedWrite(TargetWrite.Append(folded.toDF(columns: _*)), repaired = 0)
    } else if (format.key.nonEmpty) new KeyedWrite(this).plan(folded)
    else if (format.isFull) new CountedWrite(this).plan(folded)
    else new InsertedWrite(this).plan(folded)

  /** The rows of the fold. */
  private def folded(chunks: RDD[Array[Byte]]): DataFrame = {
    val format = this.format
    RowsOfRdd.toDataFrame(
      session,
      chunks.mapPartitions(ChangeFold.rows(format, _)),
      ChangeFold.schema(format)
    )
  }

  /** The rows of the target before the cut. None if a TRUNCATE of the cut removes them. */
  def base: Option[DataFrame] =
    Option.when(format.keepsRows || statistics.truncated.isEmpty)(current)

  /** @throws io.sparkpgoutput.errors.PgOutputException if somebody has added a column since the fold's format was made */
  def checkColumns(target: StructType): Unit = {
    val known = format.splitsReplaced || format.keepsRows ||
      target.forall(column => format.schema.exists(_.name.equalsIgnoreCase(column.name)))
    if (!known)
      throw TargetError.conflict(
        table.target,
        new IllegalStateException("Somebody has added a column to it.")
      )
  }

  /** The rows of [[base]] that the server has: without marked rows, and without versions that have ended. */
  def living: Option[DataFrame] =
    base.map(rows => table.endLsn.fold(rows)(name => rows.where(col(name).isNull)))

  /**
   * Keeps rows on disk until [[close]], and cuts them off from their plan, so that they are computed once.
   */
  def checkpoint(rows: DataFrame): DataFrame = {
    val kept = rows.localCheckpoint(true, StorageLevel.DISK_ONLY)
    checkpoints += kept
    kept
  }

  /** Frees what the plan has kept on disk, after the commit. */
  def close(): Unit = {
    checkpoints.foreach(FreedStorage.unpersist)
    checkpoints.clear()
  }

  def columnName(ordinal: Int): String = format.schema(ordinal).name

  /** Returns the SQL of a value that a MERGE writes. */
  def written(value: String, ordinal: Int): String = {
    val field = format.schema(ordinal)
    val isText = field.dataType == StringType && target.format == LakeFormat.Delta.name
    if (isText && table.shape.partition.exists(_.column == field.name))
      DeltaPartitionText.checked(value, field.name)
    else value
  }

  /** The columns of the target as rows of the fold have them, under the target's names. */
  def named: Seq[String] = format.schema.indices.map { ordinal =>
    s"${FoldedColumns.column(ordinal)} AS ${TablePlace.quoted(columnName(ordinal))}"
  }
}

/** The result of a write, as in [[CutResult]]. */
final private case class WrittenCut(repaired: Long, byMerge: Option[String])

/**
 * A write of a table.
 *
 * @param repaired the number of rows of the target that the changes did not fit
 */
final case class PlannedWrite(write: TargetWrite, repaired: Long)

/**
 * The changes of a large cut: they go in blocks to executors, which sort them and keep them on their
 * disks. The driver makes one block at a time in memory. Spark keeps finished blocks in the driver's
 * memory while there is room, and then on its disk. Not thread-safe.
 *
 * @param session a session that sorts them, with adaptive execution, so that few changes are few tasks
 */
final class ShippedChanges(session: SparkSession) {
  private val context = session.sparkContext
  private val blocks = mutable.ArrayBuffer.empty[Broadcast[Array[Byte]]]
  private var chunks = Option.empty[RDD[Array[Byte]]]

  /** Takes the rows of the changes. */
  val packer: ChangePacker =
    new ChangePacker(ShippedChanges.BlockSize, blocks += context.broadcast(_))

  /**
   * Sorts the changes, and frees the blocks. The result, which [[ChangeChunk]] unpacks, is cut off from
   * them. So if an executor with some of the changes is lost, the commit fails, and the cut is made again.
   */
  def sorted(): RDD[Array[Byte]] = {
    packer.flush()
    val tasks = math.max(1, blocks.length / ShippedChanges.BlocksPerTask)
    val shipped = context.parallelize(blocks.toSeq, tasks)
    val changes = shipped.mapPartitions(found => ChangeChunk.rows(found.map(_.value)))
    val sorted = RowsOfRdd.of(
      RowsOfRdd
        .toDataFrame(session, changes, ChangeFields.schema)
        .repartition(col(ChangeFields.schema(ChangeFields.HASH).name))
        .sortWithinPartitions(ChangeFields.order.map(col): _*)
    )
    try {
      val kept = sorted.mapPartitions(ChangeChunk.pack(_))
      chunks = Some(kept)
      kept.persist(StorageLevel.DISK_ONLY).localCheckpoint()
      context.runJob(kept, (rows: Iterator[Array[Byte]]) => rows.foreach(_ => ()))
      kept
    } finally {
      FreedStorage.removeShuffles(sorted)
      destroyBlocks()
    }
  }

  /** Frees the memory and the disks, also those of blocks that were not sorted. */
  def close(): Unit = {
    destroyBlocks()
    chunks.foreach(_.unpersist(blocking = false))
    chunks = None
  }

  private def destroyBlocks(): Unit = {
    blocks.foreach(_.destroy())
    blocks.clear()
  }
}

private object ShippedChanges {

  /** With its header, such an array takes 4 regions of G1 in a heap of 1 or 2 GB, which have to follow each other. */
  final private val BlockSize = (4 << 20) - 64
  final private val BlocksPerTask = 4
}
