package io.sparkpgoutput.lake.job

import java.sql.Timestamp
import java.time.temporal.ChronoUnit
import java.time.{Duration, Instant}
import java.util.concurrent.{ConcurrentHashMap, ConcurrentLinkedQueue}

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.util.DateTimeUtils.microsToInstant
import org.apache.spark.sql.pgoutput.ClonedSession
import org.apache.spark.sql.types._
import org.apache.spark.sql.{DataFrame, Row, SparkSession}

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.errors.{ErrorText, LakeException}
import io.sparkpgoutput.lake.copy.{CopyProgress, TableCopy}
import io.sparkpgoutput.lake.core.TableStatus.{Dropped, Excluded, Failed, Live}
import io.sparkpgoutput.lake.core.{JobState, Shown, TableFailure, TableState}
import io.sparkpgoutput.lake.direct.TableFiles
import io.sparkpgoutput.lake.folder.JobFolder
import io.sparkpgoutput.lake.folder.JsonFile.fields
import io.sparkpgoutput.lake.target.Targets
import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.source.connection.{ServerAddress, ServerClient}
import io.sparkpgoutput.source.slot.{SlotHealth, SlotState}

/**
 * A job and its tables at one moment.
 *
 * @param shown the facts about each table that the state does not have, by the oids of the tables
 * @param read the read LSN
 * @param waits what the whole job waits for
 * @param problem why the job does not read the slot; None if it does
 * @param hasEnded whether the job has ended. If it starts over in the same process, the next status says so.
 * @param silence the seconds since the last message of the server
 * @param slot the slot, if the server has just answered
 * @param commits the commits of the tables, by their oids
 * @param files the files of the tables that the job writes directly, by the oids of the tables
 */
final private[job] case class StatusNow(
    state: JobState,
    shown: Map[Long, Shown],
    read: Long,
    waits: Seq[String],
    at: Instant = Instant.now,
    problem: Option[String] = None,
    hasEnded: Boolean = false,
    silence: Option[Double] = None,
    slot: Option[SlotState] = None,
    commits: Map[Long, Commits] = Map.empty,
    files: Map[Long, TableFiles] = Map.empty
) {
  val tables: Seq[TableNow] =
    state.tables.values.toSeq.sortBy(table => (table.name.namespace, table.name.name, table.oid))
      .map { table =>
        val counted = commits.getOrElse(table.oid, Commits())
        TableNow(table, shown.get(table.oid), read, at, counted, files.get(table.oid))
      }

  /** The tables by their names: see [[JobState.named]]. */
  lazy val named: Map[TableName, TableNow] =
    tables.filter(table => state.named(table.state.name) == table.state)
      .map(table => table.state.name -> table).toMap
}

/**
 * A table at one moment.
 *
 * @param shown the facts about it that the state does not have, if they are known
 * @param read the read LSN of the job
 */
final private[job] case class TableNow(
    state: TableState,
    shown: Option[Shown],
    read: Long,
    at: Instant,
    commits: Commits,
    files: Option[TableFiles]
) {

  /** The table has all transactions with a lower commit LSN. */
  def lsn: Option[Long] = {
    // The table has no changes between its mark and the read LSN if its queue is empty.
    val isEmpty = state.status == Live && shown.exists(_.changes == 0)
    if (isEmpty) (state.mark ++ Some(read)).reduceOption(Lsn.max(_, _)) else state.mark
  }

  /** The age of the oldest change in the queue, in seconds; 0 if the queue is empty. */
  def age: Double = shown.flatMap(_.oldest).fold(0.0) { micros =>
    math.max(0, Duration.between(microsToInstant(micros), at).toMillis / 1e3)
  }

  /** The age of the oldest change that is not in the table, in seconds. */
  def lag: Option[Double] = Option.when(!state.needsCopy && shown.nonEmpty)(age)
}

/**
 * What users see of a job. A job that runs writes its status into its checkpoint folder every 10 seconds.
 * So the commands read the folder, and do not ask the process of the job, which can run elsewhere or not at
 * all.
 */
object JobStatus {
  private val mapper = new ObjectMapper

  private val columns = Seq(
    column("table", StringType)(now => Some(now.state.name.toString)),
    column("target", StringType)(now => Some(now.state.target)),
    column("mode", StringType)(now => Some(now.state.table.mode.name)),
    column("state", StringType)(now => Some(now.state.status.name)),
    column("reason", StringType)(now =>
      now.state.status.why.orElse(now.state.copyReason).orElse(now.shown.flatMap(_.waits))
    ),
    column("since", TimestampType)(now =>
      Some(now.state.status).collect { case Failed(_, since, _, _) => Timestamp.from(since) }
    ),
    column("next_try", TimestampType)(_.shown.flatMap(_.nextTry).map(Timestamp.from)),
    column("lsn", StringType)(_.lsn.map(Lsn.format)),
    column("last_change", TimestampType)(_.state.lastChange.map(Timestamp.from)),
    column("lag", DoubleType)(_.lag),
    column("queue_changes", LongType)(_.shown.map(_.changes)),
    column("queue_bytes", LongType)(_.shown.map(_.bytes)),
    column("files", LongType)(_.files.map(_.files)),
    column("deleted_rows", LongType)(_.files.map(_.deletedRows)),
    column("rewritten_bytes", LongType)(_.files.map(_.rewrittenBytes)),
    column("last_rewrite", TimestampType)(_.files.flatMap(_.lastRewrite).map(Timestamp.from))
  )

  /** A column, with its value in the row of a table. */
  private def column(name: String, dataType: DataType)(value: TableNow => Option[Any]) =
    StructField(name, dataType) -> value

  private[job] val schema = StructType(columns.map(_._1))

  /** Returns a row for each table. */
  private[job] def toDataFrame(session: SparkSession, now: StatusNow): DataFrame =
    session.createDataFrame(now.tables.map(table => Row.fromSeq(values(table))).asJava, schema)

  private[job] def values(table: TableNow): Seq[Any] = columns.map(_._2(table).orNull)

  // The file `status.json`. The commands that start no Spark read it, too: `job_status.py`.

  private[job] def toJson(now: StatusNow): String = mapper.writeValueAsString(fields(
    "version" -> 1,
    "written" -> text(now.at),
    "slot" -> now.state.slot,
    "problem" -> now.problem.orNull,
    "ended" -> now.hasEnded,
    "read" -> Lsn.format(now.read),
    "waits" -> now.waits.asJava,
    "metrics" -> fields(
      "job" -> JobMetrics.ofJob.map(declared(_)).asJava,
      "table" -> JobMetrics.ofTable.map(declared(_)).asJava
    ),
    "values" -> values(JobMetrics.ofJob, now),
    "tables" -> now.tables.map(table(_, now)).asJava
  ))

  private def declared(metric: JobMetric[_]) = fields(
    "name" -> metric.name,
    "prometheus" -> metric.prometheus,
    "type" -> metric.kind,
    "help" -> metric.help
  )

  private def values[A](metrics: Seq[JobMetric[A]], of: A) =
    fields(metrics.map(metric => metric.name -> metric.value(of)): _*)

  /** The columns of [[toDataFrame]], and what [[read]] needs to make them from a newer state. */
  private def table(table: TableNow, now: StatusNow) = {
    val row = schema.fieldNames.toSeq.zip(values(table)).map {
      case (name, time: Timestamp) => name -> text(time.toInstant)
      case other                   => other
    }
    val name = table.state.name
    val ofMonitors = Seq(
      "labels" -> fields("schema" -> name.namespace, "table" -> name.name),
      "values" -> values(JobMetrics.ofTable, table)
    ).filter(_ => now.named.get(name).contains(table))
    fields(row ++ Seq(
      "oid" -> table.state.oid,
      "mark" -> table.state.mark.map(Lsn.format).orNull,
      "oldest_commit" -> table.shown.flatMap(_.oldest).map(Long.box).orNull,
      "waits" -> table.shown.flatMap(_.waits).orNull
    ) ++ ofMonitors: _*)
  }

  /** Readers other than Java's accept at most microseconds. */
  private def text(time: Instant) = time.truncatedTo(ChronoUnit.MICROS).toString

  private def shown(node: JsonNode) = Shown(
    node.path("queue_changes").asLong,
    node.path("queue_bytes").asLong,
    Option(node.path("oldest_commit")).filter(_.isNumber).map(_.asLong),
    text(node, "waits"),
    text(node, "next_try").map(Instant.parse)
  )

  private def files(node: JsonNode) = Option(node.path("files")).filter(_.isNumber).map(files =>
    TableFiles(
      files.asLong,
      node.path("deleted_rows").asLong,
      node.path("rewritten_bytes").asLong,
      text(node, "last_rewrite").map(Instant.parse)
    )
  )

  private def text(node: JsonNode, field: String) =
    Option(node.get(field)).filterNot(_.isNull).map(_.asText)

  /** Reads the state of a job, with what `status.json` says of it. */
  def read(session: SparkSession, checkpoint: String): LastStatus = {
    val folder = JobFolder.of(session, checkpoint)
    val (_, state) = folder.state()
    val status = folder.readStatus().map(mapper.readTree(_))
    val nodes = status.toSeq.flatMap(_.path("tables").elements.asScala)
      .map(table => table.path("oid").asLong -> table).toMap
    val tables = state.tables.map { case (oid, table) =>
      val newer = nodes.get(oid)
      val mark = newer.flatMap(text(_, "mark")).flatMap(Lsn.parse)
      oid -> table.copy(
        mark = (table.mark ++ mark).reduceOption(Lsn.max(_, _)),
        lastChange =
          (table.lastChange ++ newer.flatMap(text(_, "last_change")).map(Instant.parse)).maxOption
      )
    }
    val now = StatusNow(
      state.copy(tables = tables),
      nodes.map { case (oid, node) => oid -> shown(node) },
      status.flatMap(text(_, "read")).flatMap(Lsn.parse).foldLeft(state.confirmed)(Lsn.max),
      status.toSeq.flatMap(_.path("waits").elements.asScala).map(_.asText),
      problem = status.flatMap(text(_, "problem")),
      hasEnded = status.exists(_.path("ended").asBoolean),
      files = nodes.flatMap { case (oid, node) => files(node).map(oid -> _) }
    )
    new LastStatus(session, now, status.flatMap(text(_, "written")).map(Instant.parse))
  }
}

/**
 * What the checkpoint folder says of a job, for the commands.
 *
 * @param written when the job wrote its status; None if it has written none
 */
final class LastStatus private[job] (
    session: SparkSession,
    now: StatusNow,
    written: Option[Instant]
) {

  /** What the job waits for. */
  def waits: java.util.List[String] = now.waits.asJava

  /** Why the job does not read its slot; null if it does. */
  def problem: String = now.problem.orNull

  /** Whether the job had ended when it wrote its status. A status of an earlier version does not say so. */
  def hasEnded: Boolean = now.hasEnded

  /**
   * Returns a row for each table.
   *
   * @param countsRows whether to count the rows in the target
   */
  def toDataFrame(countsRows: Boolean): DataFrame = {
    val counts = Option.when(countsRows)(ClonedSession.run(session)(count))
    val rows = now.tables.map { table =>
      val count = counts.map(_.get(table.state.oid).map(Long.box).orNull)
      Row.fromSeq(JobStatus.values(table) ++ count :+ written.map(Timestamp.from).orNull)
    }
    val more =
      counts.map(_ => StructField("rows", LongType)) ++ Seq(StructField("written", TimestampType))
    session.createDataFrame(rows.asJava, StructType(JobStatus.schema ++ more))
  }

  private def count(session: SparkSession): Map[Long, Long] = {
    val target = Targets.of(session, now.state.target, Some(now.state.format))
    now.state.tables.values
      .filter(table => table.generation > 0 && table.target.nonEmpty && target.exists(table.target))
      .map(table => table.oid -> target.read(session, table.target).count()).toMap
  }

  /**
   * Asks the server about the slot of the job.
   *
   * @return the metrics of the source, the LSN of the job, and what is wrong with the slot
   */
  def slot(
      url: String,
      user: String,
      password: String,
      slot: String
  ): java.util.Map[String, String] = {
    val address = ServerAddress(url, Option(user), Option(password))
    address.check()
    Using.resource(new ServerClient(address, s"spark-pgoutput status (slot $slot)")) { client =>
      val state = client.query(SlotState.read(_, slot)).getOrElse(
        throw new LakeException("PGOUTPUT_SLOT_NOT_FOUND.OF_STATUS", "slot" -> slot)
      )
      val position = state.confirmedFlush.foldLeft(now.read)(Lsn.max)
      val newest = now.state.tables.values.flatMap(_.lastChange).maxOption
      (SlotHealth.metrics(state, position, state.flushLsn, newest) ++ Map(
        "lsn" -> Lsn.format(position),
        "active" -> state.holder.nonEmpty.toString,
        "warnings" -> SlotHealth.warnings(state).map(_.text).mkString("\n")
      )).asJava
    }
  }
}

/**
 * The lines that a job prints for its user: one for each copy and each commit, and the progress of
 * the copies.
 */
final class JobLog extends Logging {
  private val lines = new ConcurrentLinkedQueue[String]
  private val copies = ConcurrentHashMap.newKeySet[TableCopy]

  /** Reports something. The names of users can have ends of lines, and each event is one line. */
  def tell(text: String): Unit = {
    val line = ErrorText.escape(text)
    logInfo(line)
    add(line)
  }

  def warn(text: String): Unit = {
    val line = ErrorText.escape(text)
    logWarning(line)
    add(s"WARNING: $line")
  }

  /** Reports a commit. */
  def committed(table: TableName, changes: Long, lastCommit: Long, started: Long): Unit = {
    val lag = Duration.between(microsToInstant(lastCommit), Instant.now).toMillis / 1e3
    val seconds = (System.nanoTime() - started) / 1e9
    goesOn(table)
    tell(f"$table: ${JobLog.counted(changes, "change")} in $seconds%.1f s, lag $lag%.1f s.")
  }

  /** Reports that a copy begins. The next attempt of a copy that waits is the same copy. */
  def copying(table: TableName): Unit = if (begun.add(table)) tell(s"Copying $table.")

  /** Reports a copy. */
  def copied(table: TableName, line: String): Unit = {
    goesOn(table)
    tell(line)
  }

  private def goesOn(table: TableName): Unit = {
    problems.remove(table)
    begun.remove(table): Unit
  }

  /** Reports that an error has ended the job. It adds no line, because a command prints the error as its own. */
  def ended(what: String, error: Throwable): Unit =
    if (TableFailures.needsStack(error)) logError(what, error)
    else logWarning(s"$what. ${TableFailures.text(error)}")

  /** The tables whose copies have begun, and have not ended or failed. */
  private val begun = ConcurrentHashMap.newKeySet[TableName]

  /** The last problem of each table that cannot go on. */
  private val problems = new ConcurrentHashMap[TableName, String]

  /**
   * Reports why a table cannot go on. It reports the same reason once, until the table has a commit or a copy. Two
   * texts that differ in a word with a digit have the same reason, because a store gives each request an id.
   *
   * @param unknown an error that this library does not know. Its stack trace goes to Spark's log.
   */
  def failed(table: TableName, failure: TableFailure, unknown: Option[Throwable] = None): Unit = {
    if (failure.kind != TableFailure.Waits) begun.remove(table): Unit
    val reason = failure.text.replaceAll("\\S*\\d\\S*", "")
    if (problems.put(table, reason) != reason) {
      val what = failure.kind match {
        case TableFailure.Waits     => s"The table $table waits, and the job tries again."
        case TableFailure.NeedsCopy => s"The table $table is copied while the job goes on."
        case TableFailure.Retried   => s"The table $table has failed, and the job tries again."
        case TableFailure.Lasting   => s"The table $table has failed. Other tables go on."
      }
      warn(s"$what ${failure.text}")
      unknown.foreach(logError(s"The table $table has met an error of another library", _))
    }
  }

  private def add(line: String): Unit = {
    lines.add(line)
    // The caller may never take the lines.
    if (lines.size > JobLog.MostLines) lines.poll()
  }

  /** Runs a copy, and reports its progress while it runs. */
  def watching[T](copy: TableCopy)(body: => T): T = {
    copies.add(copy)
    try body
    finally copies.remove(copy): Unit
  }

  /** Returns the progress of the copies that run. */
  def progress: Seq[CopyProgress] = copies.asScala.toSeq.map(_.progress).sortBy(_.table)

  /** Returns the lines since the last call. */
  def take(): Seq[String] = Iterator.continually(lines.poll()).takeWhile(_ != null).toSeq
}

object JobLog {
  final private val MostLines = 1000

  /** What users read of the tables that a job does not follow any more, by the oids of the tables. */
  private[job] def left(state: JobState): Map[Long, String] = state.tables.collect {
    case (oid, table) if table.status == Dropped =>
      oid -> s"The table ${table.name} is not published any more. Its rows in the target stay as they are."
    case (oid, table) if table.status == Excluded =>
      oid -> s"The option excludeTables names the table ${table.name}. Its rows in the target stay as they are."
  }

  /** Returns a number of things, such as `1 row` or `1,000 rows`. */
  private[job] def counted(number: Long, thing: String): String =
    f"$number%,d $thing${if (number == 1) "" else "s"}"
}
