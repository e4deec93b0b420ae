package io.sparkpgoutput.lake.copy

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.{
  SparkListener,
  SparkListenerExecutorMetricsUpdate,
  SparkListenerTaskEnd
}

import io.sparkpgoutput.changes.TableName

/**
 * The progress of a copy.
 *
 * @param rows the rows that were read
 * @param bytes the bytes of COPY that were read
 * @param share how much of the table's files that is, from 0 to 1
 */
final case class CopyProgress(table: String, rows: Long, bytes: Long, share: Double)

/**
 * Follows the tasks of a copy while they run. An accumulator has the counts of the tasks that have
 * ended. Executors report the counts of the other tasks with each heartbeat
 * (`spark.executor.heartbeatInterval`).
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

  /** The accumulators have its counts now, unless it has failed. */
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

  override def close(): Unit = context.removeSparkListener(this)
}
