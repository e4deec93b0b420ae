package io.sparkpgoutput.lake.state

import java.sql.Timestamp
import java.time.Instant

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.pgoutput.ClonedSession
import org.apache.spark.sql.types._
import org.apache.spark.sql.{Row, SparkSession}

import io.sparkpgoutput.lake.LakeError
import io.sparkpgoutput.lake.target.{MarkName, Target, TargetNames, TargetWrite}
import io.sparkpgoutput.protocol.Lsn

/**
 * The table `_spark_pgoutput` of a target: one row for the job, and one for each of its tables.
 *
 * The marks in the tables decide what is applied. This table has what they do not tell: the definitions
 * that the tables had, their states, and how far the job is while nothing changes. It is written as a
 * whole. Its own mark counts how often, so a process of the job that another one has replaced cannot
 * write over what that one knows.
 *
 * Not thread-safe.
 */
final class StateTable(ofJob: SparkSession, target: Target) {
  import StateTable._

  // The mark is a setting of the session.
  private val session = ClonedSession.of(ofJob)
  private var written = Option.empty[Long]

  /** Reads the state; None if the target has none. */
  def read(): Option[(JobState, Seq[TableState])] =
    if (!target.exists(Name)) None
    else {
      val rows =
        target.read(session, Name).select(schema.fieldNames.toSeq.map(quoted): _*).collect().toSeq
      rows.map(_.getAs[Int]("version")).find(_ != Version).foreach { version =>
        throw LakeError.stateVersion(target.sqlName(Name), version, Version)
      }
      rows.find(isJob).map { row =>
        val found = job(row)
        written = target.mark(Name, markName(found))
        (found, rows.filterNot(isJob).map(table))
      }
    }

  /**
   * Writes the state, in one commit.
   *
   * @throws LakeException
   *   if another process of the job has written it since it was read
   */
  def write(job: JobState, tables: Seq[TableState]): Unit = {
    if (!target.exists(Name)) target.create(Name, schema, Nil, Map.empty)
    val rows = row(job) +: tables.sortBy(_.oid).map(row)
    val next = written.getOrElse(0L) + 1
    target.commit(session, Name, markName(job), written, next)(
      TargetWrite.Overwrite(session.createDataFrame(rows.asJava, schema).coalesce(1))
    )
    written = Some(next)
  }

  private def markName(job: JobState) = MarkName(job.id, oid = 0, generation = 0)

  private def row(job: JobState): Row = {
    val source = s"${job.systemIdentifier}/${job.database}/${job.slot}"
    Row(
      Version,
      JobKind,
      0L,
      source,
      job.id,
      null,
      if (job.end.isEmpty) TableStatus.Copying.name else TableStatus.Live.name,
      null,
      0,
      Lsn.format(job.end.getOrElse(job.firstLsn)),
      null,
      Timestamp.from(Instant.now),
      JobDefinition.toJson(job)
    )
  }

  private def row(state: TableState): Row = Row(
    Version,
    TableKind,
    state.oid,
    state.table.source.name.toString,
    state.target,
    Mirror,
    state.status.name,
    state.status match {
      case TableStatus.Stopped(reason) => reason
      case _                           => null
    },
    state.generation,
    state.mark.map(Lsn.format).orNull,
    state.lastChange.map(Timestamp.from).orNull,
    Timestamp.from(Instant.now),
    TableDefinition.toJson(state)
  )

  private def job(row: Row) = JobDefinition.fromJson(row.getAs[String]("definition"))

  private def table(row: Row): TableState = {
    val (table, formerNames) = TableDefinition.fromJson(
      row.getAs[Long]("oid"),
      row.getAs[String]("target"),
      row.getAs[String]("definition")
    )
    TableState(
      table,
      formerNames,
      row.getAs[Int]("generation"),
      TableStatus.of(row.getAs[String]("state"), row.getAs[String]("reason")),
      Option(row.getAs[String]("lsn")).flatMap(Lsn.parse),
      Option(row.getAs[Timestamp]("last_change")).map(_.toInstant)
    )
  }
}

object StateTable {

  /** No source table can have this name in the target. */
  val Name: String = TargetNames.Reserved

  /** The only mode of a table so far: the target has the rows that the source has. */
  val Mirror = "mirror"

  final private val Version = 1
  final private val JobKind = "job"
  final private val TableKind = "table"

  val schema: StructType = StructType(
    Seq(
      StructField("version", IntegerType),
      StructField("kind", StringType),
      StructField("oid", LongType),
      StructField("source", StringType),
      StructField("target", StringType),
      StructField("mode", StringType),
      StructField("state", StringType),
      StructField("reason", StringType),
      StructField("generation", IntegerType),
      StructField("lsn", StringType),
      StructField("last_change", TimestampType),
      StructField("written", TimestampType),
      StructField("definition", StringType)
    )
  )

  private def isJob(row: Row) = row.getAs[String]("kind") == JobKind

  private def quoted(name: String) = org.apache.spark.sql.functions.col(s"`$name`")
}
