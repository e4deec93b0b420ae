package io.sparkpgoutput.source.reader

import org.apache.spark.util.AccumulatorV2

/**
 * What a task tells the driver of a batch.
 *
 * @param end
 *   the end of the batch; 0 if there is no report yet
 * @param lastCommit
 *   the time of the last commit in microseconds since 1970; 0 if the batch has none
 * @param location
 *   the executor that keeps the session, as a preferred location of Spark
 */
final case class ReadReport(end: Long, rows: Long, lastCommit: Long, location: Option[String])

/** Brings the last report to the driver. */
final class ReadReports extends AccumulatorV2[ReadReport, ReadReport] {
  import ReadReports.None

  private var last = None

  override def isZero: Boolean = last eq None
  override def copy(): ReadReports = {
    val made = new ReadReports
    made.last = last
    made
  }
  override def reset(): Unit = last = None
  override def add(report: ReadReport): Unit = last = report
  override def merge(other: AccumulatorV2[ReadReport, ReadReport]): Unit =
    if (!other.isZero) last = other.value
  override def value: ReadReport = last
}

private object ReadReports {
  private val None = ReadReport(0, 0, 0, Option.empty)
}
