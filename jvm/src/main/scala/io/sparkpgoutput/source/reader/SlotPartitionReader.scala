package io.sparkpgoutput.source.reader

import org.apache.spark.SparkEnv
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.metric.CustomTaskMetric
import org.apache.spark.sql.connector.read.PartitionReader
import org.apache.spark.util.CollectionAccumulator

import io.sparkpgoutput.source.session.{BatchRead, SlotSessions}

/** Reads a batch from the session of its source, and keeps the session for the next batch. */
final class SlotPartitionReader(read: BatchRead, reports: CollectionAccumulator[String])
    extends PartitionReader[InternalRow] {
  private val kept = SlotSessions.take(read)
  private val rows = new TransactionRows(kept.rows, () => kept.session.next(read.end))
  private var isDone = false

  if (read.confirmed != 0) kept.session.confirm(read.confirmed)
  kept.session.startBatch(read.end)

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
    kept.position = read.end
    SlotSessions.park(kept)
    val location = Some(SlotPartitionReader.here)
    reports.add(ReadReport(read.end, rows.count, rows.lastCommit, location).text)
  }

  /** A batch that was not read to its end leaves the session in the middle of a transaction. */
  override def close(): Unit = if (!isDone) {
    isDone = true
    SlotSessions.discard(kept)
  }
}

private object SlotPartitionReader {

  /** This executor, in the form of Spark's `ExecutorCacheTaskLocation`. */
  private def here: String = {
    val executor = SparkEnv.get.blockManager.blockManagerId
    s"executor_${executor.host}_${executor.executorId}"
  }
}
