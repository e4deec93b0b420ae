package org.apache.spark.sql.pgoutput

import org.apache.spark.TaskContext

/**
 * Counts the input of a task, which Spark's UI shows. This object is in this package because the
 * counters are `private[spark]`.
 */
object TaskInput {

  /** Adds rows and bytes to what the task has read. */
  def add(task: TaskContext, rows: Long, bytes: Long): Unit = {
    val metrics = task.taskMetrics().inputMetrics
    metrics.incRecordsRead(rows)
    metrics.incBytesRead(bytes)
  }
}
