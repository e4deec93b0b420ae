package io.sparkpgoutput.lake.copy

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import org.apache.spark.rdd.RDD
import org.apache.spark.scheduler.{
  SparkListener,
  SparkListenerExecutorMetricsUpdate,
  SparkListenerTaskEnd
}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.pgoutput.TaskInput
import org.apache.spark.util.LongAccumulator
import org.apache.spark.{InterruptibleIterator, Partition, SparkContext, TaskContext}

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.lake.catalog.{Leaf, MirroredTable, QuotedName}
import io.sparkpgoutput.source.connection.ServerConnection

/**
 * What the tasks of a copy need. The password and the salt are here, and nowhere else in what Spark sends to
 * executors.
 *
 * @param snapshot the snapshot that all tasks read
 */
final private case class CopySettings(
    source: CopySource,
    snapshot: SharedSnapshot,
    table: MirroredTable
)

/** The rows of a table in a snapshot. Each range is a partition. */
final private class CopyRDD(
    context: SparkContext,
    settings: CopySettings,
    ranges: Seq[CopyRange],
    counts: CopyCounts
) extends RDD[InternalRow](context, Nil) {
  setName(s"copy of ${settings.table.source.name}")

  override protected def getPartitions: Array[Partition] =
    ranges.zipWithIndex.map { case (range, index) => CopyPartition(index, range) }.toArray

  override def compute(split: Partition, task: TaskContext): Iterator[InternalRow] = {
    val range = split.asInstanceOf[CopyPartition].range
    val reader = new CopyReader(settings, range)
    val read = new RangeCounts(counts, task, reader, range)
    task.addTaskCompletionListener[Unit] { _ =>
      read.add()
      reader.close()
    }
    // A task can read several ranges, one after another.
    new InterruptibleIterator(task, reader) {
      override def hasNext: Boolean = super.hasNext || {
        read.end()
        reader.close()
        false
      }

      override def next(): InternalRow = {
        val row = super.next()
        read.afterRow()
        row
      }
    }
  }
}

final private case class CopyPartition(index: Int, range: CopyRange) extends Partition

/**
 * The rows of a table or a partition that one task reads: those in some of its pages.
 *
 * @param endPage the page after the last one; None for all pages to the end
 * @param bytes the size of the pages with their TOASTed values, if all pages have the same
 */
final private case class CopyRange(
    oid: Long,
    name: TableName,
    fileNode: Long,
    firstPage: Long,
    endPage: Option[Long],
    bytes: Long
) {

  /**
   * The condition in SQL. The server reads only these pages (TID Range Scan). For all pages, there is no condition: the
   * table may have none, or the role cannot read their numbers.
   */
  def condition: Option[String] = {
    val from = Option.when(firstPage > 0)(s"ctid >= '($firstPage,0)'")
    val until = endPage.map(page => s"ctid < '($page,0)'")
    Option.when(from.isDefined || until.isDefined)((from ++ until).mkString(" AND "))
  }

  /** The table in SQL, without those that inherit from it. */
  def from: String = s"ONLY ${QuotedName(name)}"
}

private object CopyRange {
  private val LeastBytes = 8L << 20
  private val MostBytes = 256L << 20

  /**
   * Splits tables into ranges of about the same size: at least one for each core, unless they get too
   * small. The tables can grow during the copy, so the last range of each has no end.
   */
  def of(files: Seq[LeafSize], cores: Int): Seq[CopyRange] = {
    val total = files.map(_.bytes).sum
    val wanted = math.max(LeastBytes, math.min(MostBytes, total / math.max(cores, 1)))
    files.flatMap(split(_, wanted))
  }

  private def split(size: LeafSize, wanted: Long): Seq[CopyRange] = {
    import size.file
    val count = math.max(1, math.min(size.pages, (size.bytes + wanted / 2) / wanted))
    val starts = (0L until count).map(_ * size.pages / count)
    starts.zip(starts.drop(1).map(Option(_)) :+ None).map { case (first, end) =>
      CopyRange(file.oid, file.name, file.fileNode, first, end, size.bytes / count)
    }
  }
}

/**
 * The size of a table or a partition at the server.
 *
 * @param pages 0 if its rows cannot be read by the numbers of their pages
 * @param bytes the size with TOASTed values
 */
final private case class LeafSize(file: Leaf, pages: Long, bytes: Long)

private object LeafSize {
  def of(connection: ServerConnection, file: Leaf): LeafSize = connection
    .query(
      """SELECT pg_table_size(c.oid) AS bytes,
        |  CASE WHEN am.amname = 'heap' AND has_column_privilege(c.oid, 'ctid', 'SELECT')
        |    THEN pg_relation_size(c.oid) / current_setting('block_size')::int ELSE 0 END AS pages
        |FROM pg_class c JOIN pg_am am ON am.oid = c.relam WHERE c.oid = ?::oid""".stripMargin,
      file.oid
    )(row => LeafSize(file, row.getLong("pages"), row.getLong("bytes")))
    .headOption
    .getOrElse(LeafSize(file, 0, 0))
}

/**
 * The progress of a copy.
 *
 * @param rows the rows that were read
 * @param bytes the bytes of COPY that were read
 * @param share the part of the table's files whose rows were read, from 0 to 1
 */
final case class CopyProgress(table: String, rows: Long, bytes: Long, share: Double)

/**
 * Follows the tasks of a copy while they run. An accumulator has the counts of the tasks that have ended.
 * Executors report the counts of the other tasks with each heartbeat (`spark.executor.heartbeatInterval`).
 *
 * @param size the size of the table's files in bytes
 */
final private class CopyWatch(
    context: SparkContext,
    table: TableName,
    counts: CopyCounts,
    size: Long
) extends SparkListener with AutoCloseable {
  private val ids = counts.all.map(_.id)

  /** The counts of the tasks that run, in the order of [[ids]]. */
  private val running = new ConcurrentHashMap[Long, Seq[Long]]
  context.addSparkListener(this)

  override def onExecutorMetricsUpdate(update: SparkListenerExecutorMetricsUpdate): Unit =
    update.accumUpdates.foreach { case (task, _, _, accumulators) =>
      val values =
        accumulators.collect { case info if ids.contains(info.id) => info.id -> info.update }
          .collect { case (id, Some(value: Long)) => id -> value }.toMap
      if (values.nonEmpty) running.put(task, ids.map(values.getOrElse(_, 0L)))
    }

  /** When a task has ended, the accumulators have its counts, unless it has failed. */
  override def onTaskEnd(end: SparkListenerTaskEnd): Unit =
    running.remove(end.taskInfo.taskId): Unit

  /** Returns the counts of the tasks that have ended. */
  def ended: CopyProgress = of(counts.all.map(_.sum))

  /** Returns the counts of all tasks. */
  def progress: CopyProgress = of(
    running.values.asScala.foldLeft(counts.all.map(_.sum)) { (sum, task) =>
      sum.zip(task).map { case (a, b) => a + b }
    }
  )

  private def of(sums: Seq[Long]) = {
    val share = if (size == 0) 1.0 else math.min(1.0, sums(2).toDouble / size)
    CopyProgress(table.toString, sums(0), sums(1), share)
  }

  /**
   * Removes the listener, in a thread that nobody interrupts. The removal of the last listener ends Spark's queue of
   * events. An interrupted thread ends it only in part, and `SparkContext.stop` then waits forever
   * (`AsyncEventQueue.stop`).
   */
  override def close(): Unit = {
    val removal = new Thread(() => context.removeSparkListener(this), s"end of the copy of $table")
    removal.setDaemon(true)
    removal.start()
  }
}

/** The numbers of rows and bytes that the tasks of a copy have read. */
final private class CopyCounts(context: SparkContext, table: TableName) extends Serializable {
  val rows: LongAccumulator = context.longAccumulator(s"rows of $table")

  /** The bytes that COPY has written. */
  val bytes: LongAccumulator = context.longAccumulator(s"bytes of $table")

  /** The bytes of the table's files whose rows were read. A range that is not read to its end has an estimate. */
  val covered: LongAccumulator = context.longAccumulator(s"bytes of the files of $table")
  def all: Seq[LongAccumulator] = Seq(rows, bytes, covered)
}

/** Counts what a task reads of a range, and adds this to the counts of the copy while the task runs. */
final private class RangeCounts(
    counts: CopyCounts,
    task: TaskContext,
    reader: CopyReader,
    range: CopyRange
) {
  private var rows = 0L
  private var bytes = 0L
  private var covered = 0L

  /** Is called after each row. */
  def afterRow(): Unit = if (reader.readBytes - bytes >= RangeCounts.Step) add()

  /** Adds what was read since the last time. */
  def add(): Unit = add(math.max(covered, math.min(reader.readBytes, range.bytes)))

  /** Adds the rest, after the last row of the range. */
  def end(): Unit = add(range.bytes)

  private def add(nowCovered: Long): Unit = {
    TaskInput.add(task, reader.readRows - rows, reader.readBytes - bytes)
    counts.rows.add(reader.readRows - rows)
    counts.bytes.add(reader.readBytes - bytes)
    counts.covered.add(nowCovered - covered)
    rows = reader.readRows
    bytes = reader.readBytes
    covered = nowCovered
  }
}

private object RangeCounts {
  final private val Step = 1L << 20
}
