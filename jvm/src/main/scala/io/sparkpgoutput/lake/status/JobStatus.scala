package io.sparkpgoutput.lake.status

import java.sql.Timestamp
import java.time.{Duration, Instant}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.types._
import org.apache.spark.sql.{DataFrame, Row, SparkSession}

import io.sparkpgoutput.lake.state.{KeptState, TableState}
import io.sparkpgoutput.protocol.Lsn

/** The tables of a job, for people. */
object JobStatus {

  /** The columns of a table in each list of tables. */
  val columns: Seq[StructField] = Seq(
    StructField("table", StringType),
    StructField("target", StringType),
    StructField("mode", StringType),
    StructField("state", StringType),
    StructField("reason", StringType),
    StructField("lsn", StringType),
    StructField("last_change", TimestampType)
  )

  private val schema = StructType(columns :+ StructField("lag", DoubleType))

  /**
   * The values of [[columns]].
   *
   * @param problem what is wrong with the table beside what its state says
   */
  def values(table: TableState, lsn: Option[Long], problem: Option[String] = None): Seq[Any] = Seq(
    table.table.source.name.toString,
    table.target,
    table.table.mode.name,
    table.status.name,
    problem.orElse(table.status.why).orNull,
    lsn.map(Lsn.format).orNull,
    table.lastChange.map(Timestamp.from).orNull
  )

  /** Returns a row for each table. The lag is in seconds, and NULL before the stream begins. */
  def of(session: SparkSession, state: KeptState, applied: Option[Instant]): DataFrame = {
    val lag = applied.map(Duration.between(_, Instant.now).toMillis / 1e3)
    val rows = state.tables.map(row(_, state.job.end, lag))
    session.createDataFrame(rows.asJava, schema)
  }

  private def row(table: TableState, end: Option[Long], lag: Option[Double]): Row = {
    // The job has seen everything below its end, and the table has no changes between its mark and it.
    val lsn = if (table.isLive) (table.mark ++ end).reduceOption(Lsn.max) else table.mark
    Row.fromSeq(values(table, lsn) :+ (if (table.isLive) lag.map(Double.box).orNull else null))
  }
}
