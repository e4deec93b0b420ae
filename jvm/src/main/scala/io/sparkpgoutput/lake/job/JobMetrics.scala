package io.sparkpgoutput.lake.job

import java.io.IOException
import java.nio.file.StandardCopyOption.ATOMIC_MOVE
import java.nio.file.{Files, Path}
import java.util.Locale
import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

import org.apache.spark.sql.pgoutput.SparkMetrics

import com.codahale.metrics.{Gauge, MetricRegistry}

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.errors.LakeException

/**
 * A number that monitors get.
 *
 * @param name its name in Spark's metrics system
 * @param help what it is, a sentence
 * @param ofTable whether each table has one
 * @param isCounter whether it only grows while the job runs
 * @param value returns None while the job does not know it
 */
final private[job] case class JobMetric[A](
    name: String,
    help: String,
    ofTable: Boolean,
    isCounter: Boolean
)(val value: A => Option[Number]) {

  /** Its name for Prometheus. */
  def prometheus: String = {
    val words = name.replaceAll("([A-Z])", "_$1").toLowerCase(Locale.ROOT)
    s"spark_pgoutput_${if (ofTable) "table_" else ""}$words${if (isCounter) "_total" else ""}"
  }

  def kind: String = if (isCounter) "counter" else "gauge"
}

/**
 * What a job reports to monitors. Spark's metrics system takes it from a [[JobSource]], and
 * `spark-pgoutput status --prometheus` from the status that the job writes.
 */
object JobMetrics {
  private[job] val ofJob: Seq[JobMetric[StatusNow]] = Seq(
    job("statusTimestampSeconds", "When the job wrote its status, in seconds since 1970.")(now =>
      Some(now.at.toEpochMilli / 1e3)
    ),
    job("reading", "1 if the job reads the slot, otherwise 0.")(now =>
      Some(if (now.problem.isEmpty) 1 else 0)
    ),
    job(
      "waiting",
      "1 if the job waits for the server, for its checkpoint folder or for room in the queues, otherwise 0."
    )(now => Some(if (now.waits.isEmpty) 0 else 1)),
    job(
      "readLsn",
      "The read LSN as a number. Each transaction with a lower commit LSN is in the tables or in a queue."
    )(now => Some(now.read)),
    job(
      "lastMessageAgeSeconds",
      "The seconds since the last message of the server, which answers every 10 seconds at least. While " +
        "the queues are full, the job reads no messages."
    )(_.silence.map(Double.box)),
    job("slotRetainedBytes", "The bytes of WAL that the server keeps for the slot.")(
      _.slot.flatMap(_.retainedWal).map(Long.box)
    ),
    job("slotWalStatus", s"The wal_status of the slot: ${shown(walStatuses)}.")(
      _.slot.flatMap(_.walStatus).map(walStatuses.indexOf(_)).filter(_ >= 0).map(Int.box)
    ),
    job(
      "slotSafeBytes",
      "The bytes of WAL that the server can still write before it gives up the slot. It is missing " +
        "without max_slot_wal_keep_size."
    )(_.slot.flatMap(_.safeWalSize).map(Long.box))
  )

  private[job] val ofTable: Seq[JobMetric[TableNow]] = Seq(
    table("state", s"The state of the table: ${shown(states)}.")(now =>
      Some(states.indexOf(now.state.status.name)).filter(_ >= 0).map(Int.box)
    ),
    table(
      "lagSeconds",
      "The age of the oldest change that was read and that the table lacks, or 0. It is missing while the " +
        "table needs a copy."
    )(_.lag.map(Double.box)),
    table("queueAgeSeconds", "The age of the oldest change in the queue of the table, or 0.")(now =>
      now.shown.map(_ => Double.box(now.age))
    ),
    table("queueBytes", "The size of the queue of the table.")(_.shown.map(_.bytes)),
    table("queueChanges", "The number of changes in the queue of the table.")(
      _.shown.map(_.changes)
    ),
    table(
      "files",
      "The files of the table: data files, and in Iceberg also delete files. This and the next three are " +
        "missing until the job has written the table directly or has looked at its files, which it does " +
        "after a commit."
    )(_.files.map(_.files)),
    table("deletedRows", "The rows in the files of the table that are deleted.")(
      _.files.map(_.deletedRows)
    ),
    counter(
      "rewrittenBytes",
      "The bytes of the files that the job has rewritten into fewer ones since its start."
    )(_.files.map(_.rewrittenBytes)),
    table(
      "lastRewriteTimestampSeconds",
      "When the job has rewritten files of the table the last time, in seconds since 1970."
    )(_.files.flatMap(_.lastRewrite).map(_.toEpochMilli / 1e3)),
    counter("changes", "The changes that the job has applied since its start.")(now =>
      Some(now.commits.changes)
    ),
    counter("commits", "The commits of changes since the start of the job.")(now =>
      Some(now.commits.commits)
    )
  )

  /** The numbers of the states of a table and of a slot. A new one gets the next number. */
  private lazy val states = Seq("live", "copying", "failed", "dropped", "excluded")
  private lazy val walStatuses = Seq("reserved", "extended", "unreserved", "lost")

  private def shown(names: Seq[String]) =
    names.zipWithIndex.map { case (name, number) => s"$number $name" }.mkString(", ")

  private def job(name: String, help: String)(value: StatusNow => Option[Number]) =
    JobMetric[StatusNow](name, help, ofTable = false, isCounter = false)(value)

  private def table(name: String, help: String)(value: TableNow => Option[Number]) =
    JobMetric[TableNow](name, help, ofTable = true, isCounter = false)(value)

  private def counter(name: String, help: String)(value: TableNow => Option[Number]) =
    JobMetric[TableNow](name, help, ofTable = true, isCounter = true)(value)

  /** The metrics as a table, for the documentation. */
  def markdown: String =
    (Seq("Metric", "In Spark", "Type", "Meaning") +: Seq.fill(4)("---") +: (ofJob ++ ofTable).map {
      metric =>
        val inSpark = if (metric.ofTable) s"table.<table>.${metric.name}" else metric.name
        Seq(s"`${metric.prometheus}`", s"`$inSpark`", metric.kind, metric.help)
    }).map(_.mkString("| ", " | ", " |\n")).mkString

  /**
   * The name of a table as a part of a name in Spark's metrics system. No two tables have the same name, even
   * in a sink that writes each character that is not a letter or digit as `_`, as Spark's PrometheusServlet
   * does.
   *
   * Two underscores are between the schema and the table. An underscore between letters and digits stays.
   * Every other character `c`, and `Z` itself, becomes `Z`, its number in hexadecimal digits, and `Z`.
   */
  def escaped(name: TableName): String = s"${escaped(name.namespace)}__${escaped(name.name)}"

  private def escaped(name: String): String = name.indices.map { index =>
    val char = name(index)
    def isBetween =
      index > 0 && isPlain(name(index - 1)) && index + 1 < name.length && isPlain(name(index + 1))
    if (isPlain(char) && char != 'Z' || char == '_' && isBetween) char.toString
    else s"Z${char.toInt.toHexString}Z"
  }.mkString

  private def isPlain(char: Char) =
    char >= 'a' && char <= 'z' || char >= 'A' && char <= 'Z' || char >= '0' && char <= '9'
}

/**
 * The metrics of a job in Spark's metrics system. If another job of the slot has the names there, because it is about
 * to end, this job gets them at the first [[update]] after that.
 *
 * @param now returns the tables as they are now
 */
final private[job] class JobSource(slot: String, now: () => StatusNow) extends AutoCloseable {
  import JobSource._

  private val registry = new MetricRegistry
  private var status: StatusNow = _
  private var statusNanos = 0L
  private var tableNames = Set.empty[TableName]

  JobMetrics.ofJob.foreach(metric => put(metric.name)(metric.value(latest)))

  /** What removes the metrics from Spark's system, if this job has the names of the slot there. */
  private var registered = Option.empty[AutoCloseable]
  register()

  /** The slot comes first, because Spark removes all names that begin with the name of a source. */
  private def register(): Unit =
    if (registered.isEmpty && owners.putIfAbsent(slot, this) == null)
      registered = Some(SparkMetrics.register(s"$slot.pgoutput", registry))

  /** Adds the metrics of new tables, and removes those of tables that the job has no more. */
  def update(): Unit = {
    register()
    val tables = latest.named.keySet
    if (tables != tableNames) update(tables)
    tableNames = tables
  }

  private def update(tables: Set[TableName]): Unit = {
    val names = tables.map(table => s"table.${JobMetrics.escaped(table)}." -> table).toMap
    for ((prefix, table) <- names; metric <- JobMetrics.ofTable)
      put(prefix + metric.name)(latest.named.get(table).flatMap(metric.value))
    registry.removeMatching((name, _) =>
      name.startsWith("table.") && !names.contains(name.take(name.lastIndexOf('.') + 1))
    )
  }

  private def put(name: String)(value: => Option[Number]): Unit =
    if (!registry.getMetrics.containsKey(name)) // getNames would copy all names
      registry.register(
        name,
        new Gauge[Number] { override def getValue: Number = value.getOrElse(Unknown) }
      )

  /** A sink asks for each metric separately, so all metrics use one status for a second. */
  private def latest: StatusNow = synchronized {
    val time = System.nanoTime()
    if (status == null || time - statusNanos > OneSecond) {
      status = now()
      statusNanos = time
    }
    status
  }

  override def close(): Unit =
    try registered.foreach(_.close())
    finally owners.remove(slot, this): Unit
}

private object JobSource {

  /** The job that has the names of a slot in Spark's system. */
  private val owners = new ConcurrentHashMap[String, JobSource]
  private val OneSecond = TimeUnit.SECONDS.toNanos(1)

  /** A value that the job does not know is NaN. */
  private val Unknown: Number = Double.NaN
}

/** A copy of the status on the driver's host, which is written whole. */
final private[job] class StatusFile(file: String) {
  private val path = Path.of(file)

  def write(json: String): Unit = {
    val written = path.resolveSibling(s".${path.getFileName}.tmp")
    Files.writeString(written, json)
    Files.move(written, path, ATOMIC_MOVE): Unit
  }

  /** Makes the folder of the file, and refuses a file that cannot be written. */
  def check(): Unit = {
    def refuse(why: String) =
      throw new LakeException(
        "PGOUTPUT_REPLICATE_OPTION.STATUS_FILE",
        "file" -> file,
        "reason" -> why
      )
    try {
      val folder = path.toAbsolutePath.getParent
      if (folder == null || Files.isDirectory(path)) refuse("it is a folder")
      Files.createDirectories(folder)
      if (!Files.isWritable(folder)) refuse(s"the folder $folder is read-only")
    } catch { case error: IOException => refuse(error.toString) }
  }
}
