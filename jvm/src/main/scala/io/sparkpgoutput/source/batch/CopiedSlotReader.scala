package io.sparkpgoutput.source.batch

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.metric.CustomTaskMetric
import org.apache.spark.sql.connector.read.PartitionReader

import io.sparkpgoutput.source.reader.{ReadMetrics, TransactionRows}
import io.sparkpgoutput.source.session.CopiedSlotSession

/** Reads a temporary copy of a slot to the end of the WAL. The copy goes with the connection. */
final class CopiedSlotReader(partition: CopiedSlotPartition) extends PartitionReader[InternalRow] {
  import partition._

  private val (session, end) = CopiedSlotSession.start(settings)
  private val rows = new TransactionRows(output.rows(), () => session.next(end))
  session.startBatch(end)

  override def next(): Boolean = rows.next()
  override def get(): InternalRow = rows.get

  override def currentMetricsValues(): Array[CustomTaskMetric] =
    ReadMetrics.values(rows.transactions, rows.bytes)

  override def close(): Unit = session.close()
}
