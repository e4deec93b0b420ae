package io.sparkpgoutput.source.reader

import org.apache.spark.sql.connector.metric.{CustomMetric, CustomSumMetric, CustomTaskMetric}

/** The number of transactions that a scan has read. */
final class TransactionsMetric extends CustomSumMetric {
  override def name(): String = "transactions"
  override def description(): String = "number of transactions"
}

/** The bytes of the messages that a scan has read. */
final class MessageBytesMetric extends CustomSumMetric {
  override def name(): String = "messageBytes"
  override def description(): String = "bytes of messages"
}

/** The metrics of a scan, which Spark's UI shows. Spark makes each by its class. */
object ReadMetrics {
  def all: Array[CustomMetric] = Array(new TransactionsMetric, new MessageBytesMetric)

  def values(transactions: Long, bytes: Long): Array[CustomTaskMetric] = Array(
    value(new TransactionsMetric().name(), transactions),
    value(new MessageBytesMetric().name(), bytes)
  )

  private def value(metric: String, now: Long) = new CustomTaskMetric {
    override def name(): String = metric
    override def value(): Long = now
  }
}
