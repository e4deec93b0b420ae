package io.sparkpgoutput.lake.apply

import java.util.Locale
import java.util.concurrent.{ConcurrentHashMap, Semaphore, TimeUnit}

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
import io.sparkpgoutput.lake.direct.{KeyLookup, NotDirect}
import io.sparkpgoutput.lake.fold.{ChangeFold, FoldFormat, FoldedColumns}
import io.sparkpgoutput.lake.queue.{CutLimit, CutMessages}
import io.sparkpgoutput.lake.route.{
  ChangeChunk,
  ChangeFields,
  ChangePacker,
  ChangeView,
  CutRouter,
  CutSummary
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
 * The driver folds a cut by itself if the cut is small, or if its table is written directly and the driver has the
 * memory, because Spark's jobs would take longer than the fold. Executors fold the other cuts.
 *
 * @param repairs
 *   true applies a change that does not fit the target, and counts it; false makes it an error of the table
 * @param options how values are read
 * @param waiting runs a wait for memory, and gets the oid of the table that waits
 * @param memory the bytes that all large cuts which the driver folds may take at the same time
 * @param mixed the hash of a key: see [[io.sparkpgoutput.lake.direct.KeyLookup]]
 * @param mostOld
 *   the most bytes of values of the target that the driver has in memory for a direct write. A large cut of a table
 *   with versions may have more, for which it waits.
 */
final class CutApply(
    target: Target,
    repairs: Boolean,
    options: ConversionOptions = ConversionOptions(),
    waiting: Long => (=> Unit) => Unit = _ => wait => wait,
    memory: Long = CutApply.Memory,
    mixed: Long => Long = KeyLookup.mixed,
    mostOld: Long = CutApply.MostOld
) {
  import CutApply._

  /** The memory that is left, in KiB. */
  private val room = new Semaphore(kib(memory), true)

  /** The limit of a cut of several transactions that is written directly. Several of them are in memory at once. */
  private def direct(table: MirroredTable) =
    CutLimit(memory / 16, memory / 8 / bytesOfChange(table))

  /** The tables whose last cut was small enough to be written directly, and was written by a query. */
  private val lastQueried = ConcurrentHashMap.newKeySet[String]

  /** The tables whose next cut has the limit of the user, because the last one was written by a query. */
  private val wide = ConcurrentHashMap.newKeySet[String]

  /** Whether cuts of a table are written directly. */
  private def isDirect(table: MirroredTable) = !table.isHistory && table.source.key.nonEmpty &&
    target.look(table.target).notDirect.isEmpty

  /**
   * Returns the memory that a cut takes if it is written directly: its bytes, the rows of the fold, and what finds
   * their keys. If the target has versions, its rows take memory, too.
   */
  private def memoryOf(table: MirroredTable, cut: CutMessages): Long =
    (2 * cut.bytes + bytesOfChange(table) * cut.changes) * (if (table.hasVersions) 2 else 1)

  /**
   * A NULL has one byte in a message and a word in a row of the fold. If rows are marked or have versions, the row also
   * says of each column whether its value was sent.
   */
  private def bytesOfChange(table: MirroredTable) =
    BytesOfChange + BytesOfColumn * table.schema.length *
      (if (table.marks || table.hasVersions) 2 else 1)

  /**
   * Returns the limit of the next cut of a table. A long queue is written directly in several cuts, because a MERGE
   * of one large cut takes more CPU than all of them. If such a cut was not written directly, the next cut has the
   * limit of the user. The cut after that has the limit of direct writes again. Otherwise, one large transaction would
   * make all later cuts large, because the queue grows during a MERGE.
   *
   * @param queue the bytes and the changes of its queue
   * @param most the limit that the user has set
   */
  def limit(table: MirroredTable, queue: CutLimit, most: CutLimit): CutLimit = {
    val some = direct(table)
    if (some.allows(queue.bytes, queue.changes) || !isDirect(table)) most
    else if (lastQueried.remove(table.target)) {
      wide.add(table.target)
      most
    } else {
      wide.remove(table.target)
      CutLimit(math.min(most.bytes, some.bytes), some.changes)
    }
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
      val needed = memoryOf(table, cut)
      val isSmall = cut.changes <= SmallCut && needed <= math.min(SmallMemory, memory / 16)
      val isWide = wide.remove(table.target)
      val isFolded = isSmall || needed <= memory && !isWide && isDirect(table)
      val one = new OneCut(session, table, formerNames, mark, expected, cut)
      val done =
        if (!isFolded) one.large(None)
        else
          try if (isSmall) one.small(mostOld, canMerge = true)
            else inRoom(table.source.oid, needed) {
              val old = if (table.hasVersions) math.max(mostOld, needed / 2) else mostOld
              one.small(old, canMerge = false)
            }
          catch { case found: NotDirect => one.large(Some(found.reason)) }
      if (isFolded && done.byMerge.isEmpty) lastQueried.remove(table.target)
      else if (!isWide) lastQueried.add(table.target)
      done
    } catch { case NonFatal(thrown) => throw Drift.error(table.source.name, thrown) }

  /**
   * Waits until a large cut has its memory. Small cuts do not wait, because there are no more of them than commits that
   * run.
   */
  private def inRoom[T](oid: Long, needed: Long)(fold: => T): T = {
    // A cut that has come later does not overtake one that waits.
    var isHeld = room.tryAcquire(kib(needed), 0, TimeUnit.SECONDS)
    try {
      if (!isHeld) waiting(oid) {
        room.acquire(kib(needed))
        isHeld = true // The end of the job can interrupt the rest of the wait.
      }
      fold
    } finally if (isHeld) room.release(kib(needed))
  }

  final private class OneCut(
      session: SparkSession,
      table: MirroredTable,
      formerNames: Map[String, String],
      mark: MarkName,
      expected: Long,
      cut: CutMessages
  ) {

    /**
     * Folds the cut on the driver.
     *
     * @param mostOld the most bytes of values of the target in memory
     * @param canMerge whether the driver gives the rows to a MERGE; if not, executors fold the cut again
     */
    def small(mostOld: Long, canMerge: Boolean): CutResult = {
      val chunks = mutable.ArrayBuffer.empty[Array[Byte]]
      val packer = new ChangePacker(ChunkBytes, chunks += _)
      run(sessionOf(session, isSmall = true), packer) { (batch, look) =>
        val truncates = batch.summary.truncated.nonEmpty
        if (truncates && !canMerge) throw new NotDirect("the changes truncate the table")
        val rows = batch.rows(ChangeChunk.grouped(chunks.toIndexedSeq))
        chunks.clear() // A large cut needs the memory for its commit.
        def merge(reason: Option[String]) = query(batch, reason)(batch.plan(rows))
        if (batch.format.isHistory || batch.format.key.isEmpty || truncates) merge(None)
        else
          try {
            look.notDirect.foreach(reason => throw new NotDirect(reason))
            val direct = new DirectWrite(batch, rows, mixed, mostOld)
            write(session, TargetWrite.Direct(direct.plan))
            result(batch, direct.repaired, None)
          } catch { case found: NotDirect if canMerge => merge(Some(found.reason)) }
      }
    }

    /**
     * Lets executors fold the cut.
     *
     * @param byMerge why the cut was not written directly
     */
    def large(byMerge: Option[String]): CutResult = {
      val own = sessionOf(session, isSmall = false)
      val shipped = new ShippedChanges(own)
      try
        run(own, shipped.packer)((batch, _) => query(batch, byMerge)(batch.plan(shipped.sorted())))
      finally shipped.close()
    }

    /**
     * Gives the rows of the changes to the packer, and then commits them.
     *
     * @param own the session of the queries of this commit only, because the mark is one of its settings
     */
    private def run(own: => SparkSession, packer: ChangePacker)(
        commit: (TableBatch, TargetLook) => CutResult
    ): CutResult = {
      val router = new CutRouter(table, expected, formerNames, packer.add)
      cut.foreach(router.take)
      packer.flush()
      router.summary.fold(CutResult.nothing) { summary =>
        val look = target.look(table.target)
        // The columns that only the target has: those of users, and those that the server has dropped.
        val ours = table.targetSchema.fieldNames.map(_.toLowerCase(Locale.ROOT)).toSet
        val others = look.schema.filterNot(field => ours(field.name.toLowerCase(Locale.ROOT)))
        // A history still has the columns that the server has dropped. Earlier changes have their values.
        val dropped = formerNames.values.toSet
        val kept = others.filter(field => table.isHistory && dropped(field.name))
        val format = FoldFormat.of(
          table,
          formerNames,
          summary,
          options,
          repairs,
          kept.map(field => StructField(field.name, field.dataType)),
          // If deleted rows are marked, a row that is inserted again keeps the values of users' columns.
          splitsReplaced =
            !table.isHistory && !table.marks && !table.hasVersions && others.nonEmpty
        )
        val batch = new TableBatch(own, target, table, summary, format)
        try commit(batch, look)
        finally batch.close()
      }
    }

    private def write(session: SparkSession, write: TargetWrite): Unit =
      target.commit(session, table.target, mark, Some(expected), cut.end)(write)

    /** Commits a query. */
    private def query(batch: TableBatch, byMerge: Option[String])(
        plan: => PlannedWrite
    ): CutResult = ClonedSession.within(batch.session) {
      val planned = plan
      write(batch.session, planned.write)
      result(batch, planned.repaired, byMerge)
    }

    private def result(batch: TableBatch, repaired: Long, byMerge: Option[String]) = CutResult(
      batch.summary.changes,
      repaired,
      batch.summary.lastCommit,
      byMerge
    )
  }
}

object CutApply {

  /** A quarter of the heap. The queues and the keys of files have their own parts. */
  val Memory: Long = Runtime.getRuntime.maxMemory / 4

  /** What a change takes beside its values: the objects and the fixed part of its rows, and its key in a lookup. */
  final private val BytesOfChange = 270L

  /** What a column takes in a row: a word, and a bit that says whether it is NULL. */
  final private val BytesOfColumn = 9L

  /** The most changes of a small cut, and its most memory. The driver can give its rows to a MERGE. */
  final val SmallCut = 10000L
  final private val SmallMemory = 32L << 20

  /**
   * The most bytes of changes in one array. In a heap of 1 or 2 GB, G1 does not move an array of half a MiB or more,
   * and each new one can make it look through the whole heap.
   */
  final private val ChunkBytes = 256 << 10

  /**
   * The most bytes of old values that a direct write puts into the new images of rows. By default, four tables are
   * committed at the same time, so these values take at most a fifth of a heap of 1 GB.
   */
  final private val MostOld = 48L << 20

  private def kib(bytes: Long) = (bytes >> 10).toInt

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
 * @param byMerge why a cut that could have been written directly was written by a MERGE
 */
final case class CutResult(
    changes: Long,
    repaired: Long,
    lastCommit: Long,
    byMerge: Option[String] = None
) {

  /** False if the table had all changes, so nothing was committed. */
  def committed: Boolean = changes > 0
}

object CutResult {
  val nothing: CutResult = CutResult(0, 0, 0)

  /** The result of one cut that was committed to several tables. */
  def of(results: Seq[CutResult]): CutResult = results.reduce((one, other) =>
    CutResult(
      math.max(one.changes, other.changes),
      one.repaired + other.repaired,
      math.max(one.lastCommit, other.lastCommit),
      one.byMerge.orElse(other.byMerge)
    )
  )
}

/**
 * The changes of a table in a cut, and the table in the target.
 *
 * @param own the session of this commit only, which is made if it is needed
 */
final class TableBatch(
    own: => SparkSession,
    target: Target,
    val table: MirroredTable,
    val summary: CutSummary,
    val format: FoldFormat
) {
  lazy val session: SparkSession = own

  private val checkpoints = mutable.ArrayBuffer.empty[DataFrame]

  /** Returns the write for changes in arrays of [[ChangeChunk]]. */
  def plan(chunks: RDD[Array[Byte]]): PlannedWrite = {
    val format = this.format
    val rows = chunks.mapPartitions(ChangeFold.rows(format, _))
    plan(RowsOfRdd.toDataFrame(session, rows, ChangeFold.schema(format)))
  }

  /** Folds changes that the driver has, in the order of [[ChangeView]]. */
  def rows(changes: Iterator[ChangeView]): IndexedSeq[InternalRow] =
    ChangeFold.of(format, changes).map(_.copy()).toIndexedSeq

  /** Returns the write for rows of the fold. */
  def plan(rows: IndexedSeq[InternalRow]): PlannedWrite =
    plan(LocalRows.toDataFrame(session, rows, ChangeFold.schema(format)))

  private def plan(folded: DataFrame): PlannedWrite =
    if (format.isHistory) {
      val columns = StructType(format.schema ++ table.mode.columns).fieldNames.toIndexedSeq
      PlannedWrite(TargetWrite.Append(folded.toDF(columns: _*)), repaired = 0)
    } else if (format.key.nonEmpty) new KeyedWrite(this).plan(folded)
    else if (format.isFull) new CountedWrite(this).plan(folded)
    else {
      val rows = folded.selectExpr(named: _*)
      val write =
        if (summary.truncated.isEmpty) TargetWrite.Append(rows) else TargetWrite.Overwrite(rows)
      PlannedWrite(write, repaired = 0)
    }

  /** The rows of the target before the cut. None if a TRUNCATE of the cut removes them. */
  lazy val base: Option[DataFrame] =
    Option.when(format.keepsRows || summary.truncated.isEmpty)(
      target.read(session, table.target)
    )

  /**
   * @throws io.sparkpgoutput.errors.PgOutputException if somebody has added a column since the fold's format was made
   */
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
