package io.sparkpgoutput.source.reader

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkContext
import org.apache.spark.sql.connector.metric.{CustomSumMetric, CustomTaskMetric}

/**
 * The report of a task to the driver about a batch.
 *
 * @param end the end of the batch; 0 if there is no report yet
 * @param lastCommit
 *   the time of the last commit in microseconds since 1970. In the report of a task, 0 if the batch has
 *   none; then [[ReadReports]] keeps that of an earlier batch.
 * @param location the executor that keeps the session, as a preferred location of Spark
 */
final case class ReadReport(end: Long, rows: Long, lastCommit: Long, location: Option[String])

/**
 * Brings the last report to the driver, as a tuple of its fields: Spark reads the results of tasks with a class
 * loader that lacks a JAR that was added to a running session.
 */
final class ReadReports(context: SparkContext) {
  private var report = ReadReport(0, 0, 0, None)

  /** What a task adds its reports to. */
  val accumulator = context.collectionAccumulator[(Long, Long, Long, Option[String])]

  /** The last report. */
  def last: ReadReport = {
    accumulator.value.asScala.lastOption.foreach { fields =>
      val newest = ReadReport.tupled(fields)
      report =
        if (newest.lastCommit == 0) newest.copy(lastCommit = report.lastCommit) else newest
      accumulator.reset()
    }
    report
  }
}

/** A metric of a scan, which Spark's UI shows. Spark makes each by its class. */
sealed abstract class ReadMetric(override val name: String, override val description: String)
    extends CustomSumMetric {

  /** The metric of a task. */
  def of(task: Long): CustomTaskMetric = new CustomTaskMetric {
    override def name(): String = ReadMetric.this.name
    override def value(): Long = task
  }
}

/** The number of transactions that a scan has read. */
final class TransactionsMetric extends ReadMetric("transactions", "number of transactions")

/** The bytes of the messages that a scan has read. */
final class MessageBytesMetric extends ReadMetric("messageBytes", "bytes of messages")
