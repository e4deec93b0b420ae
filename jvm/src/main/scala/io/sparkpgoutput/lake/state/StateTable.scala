package io.sparkpgoutput.lake.state

import java.sql.Timestamp
import java.time.Instant
import java.util.concurrent.ThreadLocalRandom

import scala.annotation.tailrec
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.functions.col
import org.apache.spark.sql.pgoutput.ClonedSession
import org.apache.spark.sql.types._
import org.apache.spark.sql.{DataFrame, Row, SparkSession}

import io.sparkpgoutput.lake.LakeError
import io.sparkpgoutput.lake.target.{
  CommitConflict,
  MarkName,
  TablePlace,
  Target,
  TargetNames,
  TargetWrite
}
import io.sparkpgoutput.protocol.Lsn

/**
 * The table `_spark_pgoutput` of a target: one row for the job, and one for each of its tables.
 *
 * The marks in the tables decide what is applied. This table has what they do not tell: the
 * definitions that the tables had, their states, and how far the job is while nothing changes. The
 * job writes its rows as a whole. The table's own mark grows with each write, so a process of the
 * job that another one has replaced cannot write over what that one knows. Users add rows with
 * requests, and the job removes them.
 *
 * Not thread-safe.
 */
final class StateTable(ofJob: SparkSession, target: Target) {
  import StateTable._

  // The mark is a setting of the session.
  private val session = ClonedSession.of(ofJob)
  private var writes = Option.empty[Long]

  /** Reads the state; None if the target has none. */
  @tailrec
  def read(): Option[(JobState, Seq[TableState])] =
    if (!target.exists(Name)) None
    else {
      val before = version
      val found = readOnce()
      // Otherwise, this process could write over what another one has written between rows and mark.
      if (version == before) found else read()
    }

  private def readOnce(): Option[(JobState, Seq[TableState])] = {
    val rows =
      target.read(session, Name).select(schema.fieldNames.toSeq.map(col): _*).collect().toSeq
    rows.map(_.getAs[Int]("version")).find(_ > Version).foreach { version =>
      throw LakeError.stateVersion(target.sqlName(Name), version, Version)
    }
    rows.find(is(JobKind)).map { row =>
      val found = job(row)
      writes = target.mark(Name, markName(found))
      (found, rows.filter(is(TableKind)).map(table))
    }
  }

  /** Returns when the job wrote its state last. */
  def written(): Timestamp = target.read(session, Name)
    .where(col("kind") === JobKind).select("written").head().getTimestamp(0)

  /** Returns what changes with each write. */
  def version: String = target.version(Name)

  /** Reads the requests that the job has not taken yet. Those of later versions are left out. */
  def requests(): Seq[JobRequest] =
    if (!target.exists(Name)) Nil
    else target.read(session, Name)
      .where(col("kind") === RequestKind).collect().toSeq.flatMap { row =>
        val (id, table) = (row.getAs[Long]("oid"), row.getAs[String]("source"))
        row.getAs[String]("state") match {
          case Resync    => Some(ResyncRequest(id, table))
          case Verify    => Some(VerifyRequest(id, table))
          case ResyncAll => Some(ResyncAllRequest(id))
          case _         => None
        }
      }

  /**
   * Asks something of the job for tables.
   *
   * @return the id of the requests
   */
  def request(tables: Seq[String], what: String = Resync): Long = {
    val id = newRequest()
    append(tables.map(table => request(ResyncVersion, id, table, what)))
    id
  }

  /** Asks the job to copy all tables again, with a new slot and a new checkpoint. */
  def requestAll(): Unit = append(Seq(request(Version, newRequest(), null, ResyncAll)))

  private def newRequest() = -1 - ThreadLocalRandom.current.nextLong(Long.MaxValue)

  private def append(requests: Seq[Row]): Unit = {
    make()
    rows(requests).writeTo(target.sqlName(Name)).append()
  }

  /** Makes the table, without rows, if it is not there. */
  def make(): Unit =
    if (!target.exists(Name)) target.create(Name, schema, Nil, Map.empty)

  /**
   * Writes the state, in one commit, and takes requests away. Iceberg removes whole files without
   * reading them, and the numbers in `oid` tell it which.
   *
   * @param taken the ids of requests
   * @throws LakeException if another process of the job has written it since it was read
   */
  def write(job: JobState, tables: Seq[TableState], taken: Set[Long] = Set.empty): Unit = {
    make()
    val next = after(writes.getOrElse(0L))
    val state = rows(row(job) +: tables.sortBy(_.oid).map(row))
    def isReplaced(oid: String) =
      (s"$oid >= 0" +: taken.toSeq.sorted.map(id => s"$oid = $id")).mkString(" OR ")
    def commit(write: TargetWrite): Unit =
      target.commit(session, Name, markName(job), writes, next)(write)
    try commit(TargetWrite.Overwrite(state, isReplaced("oid")))
    catch {
      // A compaction has put requests into a file with rows of the job, of which a part cannot be removed.
      case conflict: CommitConflict =>
        try commit(rowByRow(state, isReplaced("t.oid")))
        catch { case another: Throwable => another.addSuppressed(conflict); throw another }
    }
    writes = Some(next)
  }

  /** Replaces rows by a MERGE, which reads them. */
  private def rowByRow(rows: DataFrame, isReplaced: String) = {
    val columns = schema.fieldNames.toSeq.map(name => TablePlace.quoted(name))
    TargetWrite.Merge(
      rows,
      "t.oid = s.oid",
      s"WHEN MATCHED THEN UPDATE SET ${columns.map(name => s"t.$name = s.$name").mkString(", ")} " +
        s"WHEN NOT MATCHED THEN INSERT (${columns.mkString(", ")}) " +
        s"VALUES (${columns.map(name => s"s.$name").mkString(", ")}) " +
        s"WHEN NOT MATCHED BY SOURCE AND ($isReplaced) THEN DELETE"
    )
  }

  /**
   * Returns a greater number. Its last 16 bits are random. So two processes of the job that write
   * at the same time have different numbers, and neither takes the other's write for its own.
   */
  private def after(writes: Long) =
    (((writes >> 16) + 1) << 16) | ThreadLocalRandom.current.nextInt(1 << 16)

  private def rows(values: Seq[Row]) = session.createDataFrame(values.asJava, schema).coalesce(1)

  private def markName(job: JobState) = MarkName(job.id, oid = 0, generation = 0)

  private def row(job: JobState): Row = {
    val source = s"${job.systemIdentifier}/${job.database}/${job.slot}"
    Row(
      // A version that does not know of new checkpoints must not go on with the old one.
      if (job.isAnew) Version else FirstVersion,
      JobKind,
      0L,
      source,
      job.id,
      null,
      if (job.end.isEmpty) TableStatus.Copying.name else TableStatus.Live.name,
      null,
      0,
      Lsn.format(job.end.getOrElse(job.firstLsn)),
      job.appliedUpTo.map(Timestamp.from).orNull,
      Timestamp.from(Instant.now),
      JobDefinition.toJson(job)
    )
  }

  private def row(state: TableState): Row = Row(
    // A version that cannot keep a history, or copy a table again, must not go on with it.
    if (state.table.isHistory) HistoryVersion
    else if (state.isWaiting || state.generation > 1) ResyncVersion
    else FirstVersion,
    TableKind,
    state.oid,
    state.table.source.name.toString,
    state.target,
    state.table.mode.name,
    state.status.name,
    state.status.why.orNull,
    state.generation,
    state.mark.map(Lsn.format).orNull,
    state.lastChange.map(Timestamp.from).orNull,
    Timestamp.from(Instant.now),
    TableDefinition.toJson(state)
  )

  private def request(version: Int, id: Long, table: String, what: String): Row = Row(
    version,
    RequestKind,
    id,
    table,
    null,
    null,
    what,
    null,
    null,
    null,
    null,
    Timestamp.from(Instant.now),
    null
  )

  private def job(row: Row) = JobDefinition.fromJson(row.getAs[String]("definition"))
    .copy(appliedUpTo = time(row, "last_change"))

  private def table(row: Row): TableState = {
    val (table, formerNames, copied) = TableDefinition.fromJson(
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
      time(row, "last_change"),
      copied
    )
  }

  private def time(row: Row, column: String) = Option(row.getAs[Timestamp](column)).map(_.toInstant)
}

object StateTable {

  /** No source table can have this name in the target. */
  val Name: String = TargetNames.Reserved

  /** It also has jobs that have begun anew. */
  final private val Version = 4

  /** It also has histories. */
  final private val HistoryVersion = 3

  /** It also has requests, and tables that were copied again. */
  final private val ResyncVersion = 2
  final private val FirstVersion = 1
  final private val JobKind = "job"
  final private val TableKind = "table"
  final private val RequestKind = "request"

  /** The requests. */
  final val Resync = "resync"
  final val ResyncAll = "resync all"
  final val Verify = "verify"

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

  private def is(kind: String)(row: Row) = row.getAs[String]("kind") == kind
}
