package io.sparkpgoutput.lake.copy

import org.apache.spark.sql.pgoutput.TaskInput
import org.apache.spark.util.LongAccumulator
import org.apache.spark.{SparkContext, TaskContext}

import io.sparkpgoutput.changes.TableName

/**
 * The numbers of rows and bytes that the tasks of a copy have read.
 *
 * @param rows the rows
 * @param bytes the bytes that COPY has written
 * @param covered
 *   the bytes of the table's files whose rows were read. A range that is not read to its end has an
 *   estimate.
 */
final private class CopyCounts(
    val rows: LongAccumulator,
    val bytes: LongAccumulator,
    val covered: LongAccumulator
) extends Serializable {
  def all: Seq[LongAccumulator] = Seq(rows, bytes, covered)
}

private object CopyCounts {
  def of(context: SparkContext, table: TableName): CopyCounts = new CopyCounts(
    context.longAccumulator(s"rows of $table"),
    context.longAccumulator(s"bytes of $table"),
    context.longAccumulator(s"bytes of the files of $table")
  )
}

/** Counts what a task reads of a range. It adds up while the task runs. */
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
