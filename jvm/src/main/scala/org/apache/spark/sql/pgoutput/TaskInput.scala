package org.apache.spark.sql.pgoutput

import org.apache.spark.TaskContext

/** What a task reads, as Spark's UI shows it. In this package because it is `private[spark]`. */
object TaskInput {

  /** Adds rows and bytes to what the task has read. */
  def add(task: TaskContext, rows: Long, bytes: Long): Unit = {
    val metrics = task.taskMetrics().inputMetrics
    metrics.incRecordsRead(rows)
    metrics.incBytesRead(bytes)
  }
}
