package io.sparkpgoutput.lake.state

import java.sql.Timestamp
import java.time.temporal.ChronoUnit
import java.time.{Duration, Instant}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.functions.col
import org.apache.spark.sql.pgoutput.ClonedSession
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Row, SparkSession}

import io.sparkpgoutput.lake.target.{Target, TargetNames}

/**
 * The table of a target with the answers of its job to requests. It is not a part of the state
 * table, because the job rewrites the state table as whole files. The job removes answers to older
 * requests after a day. If the table is lost, no change is lost.
 *
 * Not thread-safe.
 */
final class AnswerTable(ofJob: SparkSession, target: Target) {
  import AnswerTable._

  private val session = ClonedSession.of(ofJob)

  /** Returns what changes with each answer. */
  def version: String = if (target.exists(Name)) target.version(Name) else ""

  /** Adds an answer. The answers to this request stay, because the reader counts them. */
  def add(request: Long, answer: JobAnswer): Unit = {
    val now = Instant.now
    if (!target.exists(Name)) target.create(Name, schema, Nil, Map.empty)
    val oldest = ChronoUnit.MICROS.between(Instant.EPOCH, now.minus(Stay))
    session.sql(
      s"DELETE FROM ${target.sqlName(Name)} " +
        s"WHERE written < timestamp_micros($oldest) AND request <> $request"
    )
    val added = Row(request, answer.kind.name, answer.text, Timestamp.from(now))
    session.createDataFrame(Seq(added).asJava, schema).coalesce(1)
      .writeTo(target.sqlName(Name)).append()
  }

  /** Reads the answers to a request, the oldest first. */
  def of(request: Long): Seq[JobAnswer] =
    if (!target.exists(Name)) Nil
    else
      target.read(session, Name).where(col("request") === request)
        .orderBy("written").select("kind", "text").collect().toSeq
        .flatMap(row => JobAnswer.of(row.getString(0), row.getString(1)))
}

object AnswerTable {

  /** No source table can have this name in the target. */
  val Name: String = s"${TargetNames.Reserved}_answers"

  private val Stay = Duration.ofDays(1)

  private val schema = StructType(
    Seq(
      StructField("request", LongType),
      StructField("kind", StringType),
      StructField("text", StringType),
      StructField("written", TimestampType)
    )
  )
}
