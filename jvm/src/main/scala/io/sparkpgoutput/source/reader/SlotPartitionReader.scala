package io.sparkpgoutput.source.reader

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.metric.CustomTaskMetric
import org.apache.spark.sql.connector.read.PartitionReader
import org.apache.spark.util.CollectionAccumulator
import org.apache.spark.{SparkEnv, TaskContext}

import io.sparkpgoutput.source.session.BatchRead

/** Reads a batch from the session of its source, and keeps the session for the next batch. */
final class SlotPartitionReader(read: BatchRead, reports: CollectionAccumulator[String])
    extends PartitionReader[InternalRow] {
  private val messages = new BatchMessages(read)
  private val rows = new TransactionRows(messages, () => messages.next())
  private var isDone = false
  // A task can fail after it has read everything. Its next attempt then needs the slot.
  Option(TaskContext.get()).foreach(_.addTaskFailureListener((_, _) => messages.end()))

  override def next(): Boolean = {
    val more = rows.next()
    if (!more && !isDone) finish()
    more
  }

  override def get(): InternalRow = rows.get

  override def currentMetricsValues(): Array[CustomTaskMetric] =
    ReadMetrics.values(rows.transactions, rows.bytes)

  private def finish(): Unit = {
    isDone = true
    messages.park()
    val location = Some(SlotPartitionReader.here)
    reports.add(ReadReport(read.end, rows.count, rows.lastCommit, location).text)
  }

  override def close(): Unit = if (!isDone) {
    isDone = true
    messages.discard()
  }
}

private object SlotPartitionReader {

  /** This executor, in the form of Spark's `ExecutorCacheTaskLocation`. */
  private def here: String = {
    val executor = SparkEnv.get.blockManager.blockManagerId
    s"executor_${executor.host}_${executor.executorId}"
  }
}
