package io.sparkpgoutput.lake.job

import java.nio.file.{Files, Path}
import java.time.Duration
import java.util.regex.Pattern

import scala.jdk.CollectionConverters._

import io.sparkpgoutput.changes.{TableName, TablePattern}
import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.catalog.{
  ColumnHiding,
  HashSalt,
  HiddenColumns,
  OnDeletes,
  PartitionField,
  TableMode,
  TableShape
}
import io.sparkpgoutput.lake.copy.CopySource
import io.sparkpgoutput.lake.target.{LakeFormat, TableProperties, TargetNames}
import io.sparkpgoutput.options.{OptionList, OptionSpec, SharedOptions}
import io.sparkpgoutput.source.PublicationNames
import io.sparkpgoutput.source.connection.ServerAddress
import io.sparkpgoutput.types.{ConversionOptions, InfinityMode}

/**
 * The options of `replicate`. [[ReplicateOptions.list]] describes them.
 *
 * @param format None if the catalog decides
 * @param excluded the tables that the job leaves out
 * @param names the names in the target by the names at the server. They win over `tableName`
 * @param types the Spark types of columns, by `column` or `schema.table.column`
 * @param pgTypes the Spark types of columns without an entry in `types`, by the names of PostgreSQL's types
 * @param hiding the columns that are excluded or hashed, and the salt of the hashes
 * @param mode the name of the mode of all tables that `modes` does not name
 * @param modes the names of modes by the names of tables at the source
 * @param onDelete what happens to deleted rows of all tables that `onDeletes` does not name
 * @param onDeletes what happens to them by the names of tables at the source
 * @param partitions the partitionings by the names of tables at the source
 * @param clusters the columns of the clustering by the names of tables at the source
 * @param tableProperties properties of each table that the job makes
 * @param maintains whether the job rewrites small files of tables, and files with many deleted rows
 * @param removesOrphans whether the job removes files of tables that no version needs
 * @param repairs true applies a change that does not fit the target; false makes it an error of the table
 * @param skips true isolates a table that has an error; false ends the job
 * @param copiesByItself
 *   true copies a table again that was altered in a way that changes do not show; false makes it an
 *   error of the table
 */
final case class ReplicateOptions(
    url: String = "",
    user: Option[String] = None,
    password: Option[String] = None,
    slot: String = "",
    publications: Seq[String] = Nil,
    target: String = "",
    checkpoint: String = "",
    statusFile: Option[String] = None,
    once: Boolean = false,
    format: Option[String] = None,
    excluded: Seq[TableGlob] = Nil,
    tableName: Option[String] = None,
    names: Map[String, String] = Map.empty,
    types: Map[String, String] = Map.empty,
    pgTypes: Map[String, String] = Map.empty,
    hiding: ColumnHiding = ColumnHiding(),
    infinity: InfinityMode = InfinityMode.Error,
    moneyScale: Int = 2,
    mode: String = TableMode.Mirror.name,
    modes: Map[String, String] = Map.empty,
    historyPrefix: String = TableMode.History.DefaultPrefix,
    onDelete: String = OnDeletes.Delete,
    onDeletes: Map[String, String] = Map.empty,
    partitions: Map[String, Seq[PartitionField]] = Map.empty,
    clusters: Map[String, Seq[String]] = Map.empty,
    tableProperties: Map[String, String] = Map.empty,
    failover: Boolean = false,
    parallelCopies: Int = 2,
    parallelTables: Int = 4,
    interval: Duration = Duration.ofSeconds(1),
    maintains: Boolean = true,
    maintenanceShare: Int = 25,
    retain: Duration = Duration.ofDays(7),
    retainVersions: Int = 2000,
    removesOrphans: Boolean = false,
    icebergVersion: Int = 2,
    repairs: Boolean = false,
    skips: Boolean = true,
    copiesByItself: Boolean = true,
    retryFor: Duration = Duration.ofMinutes(10),
    maxBytesPerCommit: Long = 1L << 30,
    maxHeldWal: Long = 10L << 30,
    queueMemory: Long = ReplicateOptionSpecs.ofHeap(ReplicateOptions.QueuePercent),
    queueDisk: Long = 20L << 30,
    keyCacheMemory: Long = ReplicateOptionSpecs.ofHeap(ReplicateOptions.KeyCachePercent),
    keyCacheDisk: Long = 10L << 30
) {

  /** The properties that a new table of a format gets. */
  def newProperties(format: String): Map[String, String] =
    if (format == LakeFormat.Iceberg.name && icebergVersion > 2)
      Map("format-version" -> icebergVersion.toString) ++ tableProperties
    else tableProperties

  /** The mode that a new table gets. */
  def modeOf(table: TableName): TableMode =
    TableMode.of(entryOf(modes, table).getOrElse(mode), historyPrefix).get match {
      case TableMode.Mirror           => mirrorOf(table)
      case TableMode.Both(_, history) => TableMode.Both(mirrorOf(table), history)
      case other                      => other
    }

  /** Returns whether an option names a table and gives it a mode. */
  def namesMode(table: TableName): Boolean = entryOf(modes, table).nonEmpty

  /** The mode of a table that is mirrored. */
  def mirrorOf(table: TableName): TableMode =
    if (entryOf(onDeletes, table).getOrElse(onDelete) == OnDeletes.Mark) TableMode.Marking
    else TableMode.Mirror

  /** Returns whether an option names a table and asks to keep its deleted rows. */
  def asksToMark(table: TableName): Boolean =
    entryOf(onDeletes, table).contains(OnDeletes.Mark)

  def shapeOf(table: TableName): TableShape =
    TableShape(entryOf(partitions, table).getOrElse(Nil), entryOf(clusters, table).getOrElse(Nil))

  private def entryOf[A](entries: Map[String, A], table: TableName): Option[A] =
    entries.collectFirst { case (name, found) if TargetNames.isOf(name, table) => found }

  /** The options that give a table one value. */
  private def singles: Seq[(String, Iterable[String])] = Seq(
    "mode" -> modes.keys,
    "onDelete" -> onDeletes.keys,
    "partition" -> partitions.keys,
    "cluster" -> clusters.keys
  )

  /** Returns why two entries of an option can mean one table, so that it would not be clear which one counts. */
  private def sameTable: Option[String] = (for {
    (option, keys) <- ("names" -> names.keys) +: singles
    (table, same) <- keys.toSeq.sorted.flatMap(key => TablePattern.meant(key).map(_ -> key))
      .groupMap(_._1)(_._2).toSeq.sortBy(_._1.toString)
    if same.length > 1
  } yield s"The options '$option.${same(0)}' and '$option.${same(1)}' can both mean the table " +
    s"${table.unambiguous}. Leave one out, or write each name in double quotes, as in SQL.").headOption

  /** The options that name tables which must exist. */
  def ofTables: Seq[(String, String)] =
    (singles ++ Seq(
      "excludeColumns" -> hiding.tables.filter(_._2.excluded.nonEmpty).keys,
      "hashColumns" -> hiding.tables.filter(_._2.hashed.nonEmpty).keys
    )).flatMap { case (option, names) => names.toSeq.sorted.map(option -> _) }

  /** Returns whether the job leaves out a table. */
  def excludes(table: TableName): Boolean = excluded.exists(_.matches(table))

  def address: ServerAddress = ServerAddress(url, user, password)

  /** The server and the publications from which the tables are copied. */
  def source: CopySource =
    CopySource(address, applicationName, publications, conversion, hiding)

  /** How values are read. */
  def conversion: ConversionOptions =
    ConversionOptions(infinity = infinity, moneyScale = moneyScale)

  /** What `pg_stat_activity` shows of the job's connections. */
  def applicationName: String = s"spark-pgoutput (slot $slot)"

  override def toString: String = s"the slot $slot at ${address.shown} into $target"
}

object ReplicateOptions {
  import OptionSpec._
  import ReplicateOptionSpecs._

  /** All options. */
  val list: OptionList[ReplicateOptions] = new OptionList[ReplicateOptions](
    ReplicateOptions(),
    Seq(
      text("url", "a URL of PostgreSQL's JDBC driver", Required, "The address of the server.")(
        (options, url) => options.copy(url = url)
      ),
      SharedOptions.user((options, user) => options.copy(user = Some(user))),
      SharedOptions.password((options, password) => options.copy(password = Some(password))),
      text(
        "slot",
        "the name of a slot",
        Required,
        "The replication slot. The job makes it at its first start."
      )((options, slot) => options.copy(slot = slot)),
      parsed(
        "publication",
        PublicationNames.Values,
        Required,
        "The job keeps the tables of these publications equal."
      )(PublicationNames.parse)((options, publications) =>
        options.copy(publications = publications)
      ),
      text(
        "target",
        "a namespace of a catalog such as lakehouse.shop, or a folder for Delta",
        Required,
        "The job makes the tables in this namespace or folder."
      )((options, target) => options.copy(target = target)),
      text("checkpoint", "a folder", Required, "The job keeps its state in this folder.")(
        (options, checkpoint) => options.copy(checkpoint = checkpoint)
      ),
      text(
        "statusFile",
        "a file of the driver's host",
        "no file",
        "The job also writes its status into this file every 10 seconds. spark-pgoutput status reads it " +
          "without Spark."
      )((options, file) => options.copy(statusFile = Some(file))),
      flag(
        "once",
        "If true, the job ends when it has applied all changes that existed at its start."
      )((options, once) => options.copy(once = once)),
      choice("format", "what the catalog writes; delta for a folder", "The format of the tables.")(
        "delta" -> "delta",
        "iceberg" -> "iceberg"
      )((options, format) => options.copy(format = Some(format))),
      parsed(
        "excludeTables",
        "tables such as staging.* or public.tmp_*, with commas between them",
        "no table",
        "The job leaves out these tables of the publications. In a pattern, * stands for any characters, " +
          "and ? for one. A pattern without a schema is one of the schema public."
      )(PublicationNames.parse(_).map(_.map(TableGlob(_))))((options, excluded) =>
        options.copy(excluded = excluded)
      ),
      text(
        "tableName",
        "a text with {table} and, if you want, {schema}",
        "{table} for the schema public, {schema}_{table} for others",
        "The template for the names of the tables in the target."
      )((options, template) => options.copy(tableName = Some(template))),
      prefixed(
        "names.<table>",
        "a name",
        "the option tableName applies",
        "The name that this table has in the target."
      )((options, table, name) => options.copy(names = options.names + (table -> name))),
      prefixed(
        "types.<column>",
        "a type of Spark",
        "the type that pgoutput_schema gives",
        "The type of all columns with this name. To name a single column, write schema.table.column."
      )((options, column, name) => options.copy(types = options.types + (column -> name))),
      prefixed(
        "pgTypes.<type>",
        "a type of Spark",
        "the type that pgoutput_schema gives",
        "The type of all columns that have exactly this type of PostgreSQL, without a modifier such as " +
          "(10,2), and no entry in types. Name arrays and domains themselves, such as numeric[]."
      )((options, name, ddl) => options.copy(pgTypes = options.pgTypes + (name -> ddl))),
      columns(
        "excludeColumns.<table>",
        "all columns are in the target",
        "The job leaves out these columns of the table. None of their values leaves the reader of the slot."
      )((options, table, names) =>
        options.copy(hiding = options.hiding.hide(table, HiddenColumns(excluded = names)))
      ),
      columns(
        "hashColumns.<table>",
        "no column is hashed",
        "The target has hashes of these columns of the table, as STRING: HMAC-SHA-256 of PostgreSQL's text " +
          "in UTF-8, as hexadecimal digits."
      )((options, table, names) =>
        options.copy(hiding = options.hiding.hide(table, HiddenColumns(hashed = names)))
      ),
      salt(
        "hashSaltFile",
        "a file of the driver's host",
        "The first line of this file is the salt of the hashes: the secret key of HMAC. With another " +
          "salt, the job copies the tables that have hashed columns."
      )(HashSalt.ofFile),
      salt(
        "hashSaltVariable",
        "the name of a variable of the environment",
        "This variable of the driver's environment has the salt of the hashes."
      )(HashSalt.ofVariable),
      choice(
        "infinity",
        "error",
        "With error, an infinite date, timestamp or interval is an error of the table. With null, it " +
          "becomes NULL. With clamp, it becomes the nearest value that Spark has: for dates and " +
          "timestamps, the first or last one of the years 1 to 9999, in UTC. In a key, it is always an error."
      )(InfinityMode.all.map(infinity => infinity.name -> infinity): _*)((options, infinity) =>
        options.copy(infinity = infinity)
      ),
      SharedOptions.moneyScale((options, scale) => options.copy(moneyScale = scale)),
      choice(
        "mode",
        TableMode.Mirror.name,
        "With mirror, the target has the rows of a table. With versions, it has each version of each row. " +
          "With history, it has all changes of the table. With both, it has two tables: the rows, and the changes " +
          "in a table whose name ends with _history."
      )(TableMode.names.map(name => name -> name): _*)((options, mode) =>
        options.copy(mode = mode)
      ),
      ofTable("mode", TableMode.names, "The mode of this table.")((options, table, mode) =>
        options.copy(modes = options.modes + (table -> mode))
      ),
      parsed(
        "historyPrefix",
        "letters, digits and _",
        TableMode.History.DefaultPrefix,
        "The names of the columns that a history adds to those of the table begin with this text."
      )(prefix => Some(prefix).filter(_.matches("[A-Za-z0-9_]+")))((options, prefix) =>
        options.copy(historyPrefix = prefix)
      ),
      choice(
        "onDelete",
        OnDeletes.Delete,
        "With delete, a row that the server deletes is deleted in the target. With mark, it stays, and " +
          "_deleted_at and _deleted_lsn say when it was deleted. It has no effect on histories, on " +
          "versions and on tables without a key."
      )(OnDeletes.names.map(name => name -> name): _*)((options, onDelete) =>
        options.copy(onDelete = onDelete)
      ),
      ofTable("onDelete", OnDeletes.names, "What happens to deleted rows of this table.")(
        (options, table, onDelete) =>
          options.copy(onDeletes = options.onDeletes + (table -> onDelete))
      ),
      prefixedParsed(
        "partition.<table>",
        "columns, or in Iceberg also years(c), months(c), days(c), hours(c), bucket(16, c) and " +
          "truncate(4, c)",
        "no partitions",
        "The target has this table in partitions. To change it for a table that exists, the job copies " +
          "the table."
      )(TableShape.partition)((options, table, fields) =>
        options.copy(partitions = options.partitions + (table -> fields))
      ),
      prefixedParsed(
        "cluster.<table>",
        "columns, with commas between them",
        "the columns of the key in Delta, and none in Iceberg",
        "The columns by which the rows of this table are near each other: the clustering in Delta, and " +
          "the sort order in Iceberg. To change it for a table that exists, the job copies the table."
      )(TableShape.columns)((options, table, columns) =>
        options.copy(clusters = options.clusters + (table -> columns))
      ),
      OptionSpec(
        "property.<name>",
        "a text",
        "a value that makes MERGE cheap",
        "The value of this property in all tables that the job makes."
      )((options, entry) =>
        suffix(entry).filterOrElse(
          !TableProperties.isReserved(_),
          s"The option '${entry.name}' is a property that Spark sets itself. Leave it out."
        ).filterOrElse(
          !_.equalsIgnoreCase(TableProperties.MarkExpiry),
          s"With the option '${entry.name}', Delta would remove the mark of a table that does not change " +
            "for some time, and nothing would say which changes the table has. Leave it out."
        ).map(name =>
          options.copy(tableProperties = options.tableProperties + (name -> entry.value))
        )
      ),
      flag(
        "failover",
        "If true, the job makes a slot that is synchronized to standbys. This needs PostgreSQL 17."
      )((options, failover) => options.copy(failover = failover)),
      number("parallelCopies", 2, "The number of tables that are copied at the same time.")(
        (options, number) => options.copy(parallelCopies = number)
      ),
      number("parallelTables", 4, "The number of tables that are committed at the same time.")(
        (options, number) => options.copy(parallelTables = number)
      ),
      duration(
        "interval",
        "1s",
        "The least time between two commits of a table. A longer interval makes fewer and larger " +
          "commits."
      )((options, interval) => options.copy(interval = interval)),
      choice(
        "maintenance",
        "auto",
        "With auto, the job rewrites small files, and files with many deleted rows, of the tables that it " +
          "writes. With off, it does not."
      )("auto" -> true, "off" -> false)((options, does) => options.copy(maintains = does)),
      number(
        "maintenanceShare",
        25,
        "The greatest part of the time of one core that the rewrites take, in percent."
      )((options, percent) => options.copy(maintenanceShare = percent)),
      duration(
        "retain",
        "7d",
        "How long old versions of a table stay, for time travel. Properties of the table win " +
          "over this option, and so do tags of Iceberg, the newest snapshot of each branch, and the " +
          "retention of a branch itself. In Delta, versions stay for at most two days less than the " +
          "property delta.logRetentionDuration, which is 9 days by default."
      )((options, time) => options.copy(retain = time)),
      number(
        "retainVersions",
        2000,
        "The greatest number of versions of a table that stay, even if retain allows more. With a " +
          "commit each second, 2000 versions are half an hour.",
        100 to 1000000
      )((options, versions) => options.copy(retainVersions = versions)),
      choice(
        "orphanFiles",
        "keep",
        "With remove, the job lists the folders of the tables that it writes once a day, and removes files that no " +
          "version of the table needs, if they are older than 3 days and than retain."
      )("keep" -> false, "remove" -> true)((options, does) => options.copy(removesOrphans = does)),
      choice(
        "icebergVersion",
        "2",
        "The version of Iceberg's format that new tables have. A table with a VARIANT has version 3."
      )("2" -> 2, "3" -> 3)((options, version) => options.copy(icebergVersion = version)),
      choice(
        "onDrift",
        "error",
        "A change does not fit if the target lacks the row that it changes, or has the row that it " +
          "inserts. With error, it is an error of the table. With repair, the job applies and counts it."
      )("error" -> false, "repair" -> true)((options, repairs) => options.copy(repairs = repairs)),
      choice(
        "onTableError",
        "isolate",
        "With isolate, an error of one table stops only this table, and the job tries again. With " +
          "stop, the error ends the job."
      )("isolate" -> true, "stop" -> false)((options, skips) => options.copy(skips = skips)),
      choice(
        "onSchemaChange",
        "copy",
        "What happens to a table that the job can correct only by a copy, for example after an ALTER " +
          "TABLE that the messages do not describe. With copy, the job copies it. With error, it fails."
      )("copy" -> true, "error" -> false)((options, copies) =>
        options.copy(copiesByItself = copies)
      ),
      duration(
        "retryFor",
        "10min",
        "With once, how long the job tries again after errors that can pass by themselves."
      )((options, time) => options.copy(retryFor = time)),
      size(
        "maxBytesPerCommit",
        "1g",
        "The size, in bytes of changes, up to which one commit of a table takes several " +
          "transactions. A transaction is never split."
      )((options, bytes) => options.copy(maxBytesPerCommit = bytes)),
      size(
        "maxHeldWal",
        "10g",
        "How much of the WAL that the job has read, of all tables, the server keeps for a failed " +
          "table at most. Above it, the job drops the changes of the table, and copies the table when the cause of the error is gone."
      )((options, bytes) => options.copy(maxHeldWal = bytes)),
      parsed(
        "queueMemory",
        "a size such as 512m or 2g, or a share such as 20%",
        s"$QueuePercent% of the driver's heap",
        "The memory of the driver that all queues share. A queue has the changes of a table that " +
          "are read and not applied."
      )(memory)((options, bytes) => options.copy(queueMemory = bytes)),
      size(
        "queueDisk",
        "20g",
        "The disk in Spark's local directories of the driver that all queues share, for what does " +
          "not fit into queueMemory."
      )((options, bytes) => options.copy(queueDisk = bytes)),
      parsed(
        "keyCacheMemory",
        "a size such as 512m or 2g, or a share such as 20%",
        s"$KeyCachePercent% of the driver's heap",
        "The memory of the driver for the keys of the tables' files. If there is no room for keys, " +
          "each commit reads them from the files."
      )(memory)((options, bytes) => options.copy(keyCacheMemory = bytes)),
      size(
        "keyCacheDisk",
        "10g",
        "The disk in Spark's local directories of the driver for keys that do not fit into keyCacheMemory."
      )((options, bytes) => options.copy(keyCacheDisk = bytes))
    )
  )

  final private val Required = "required"

  /** The share of the heap that queues have by default. */
  final private val QueuePercent = 20

  /** The share of the heap that keys of files have by default. */
  final private val KeyCachePercent = 25

  /**
   * Reads the options.
   *
   * @throws LakeException if one is missing, unknown or wrong
   */
  def parse(entries: Seq[(String, String)]): ReplicateOptions = {
    val set = entries.filter(_._2 != null)
    val parsed = list.parse(set).flatMap(check)
      .fold(
        problem =>
          throw new LakeException("PGOUTPUT_REPLICATE_OPTION.INVALID", "problem" -> problem),
        identity
      )
    parsed.address.check()
    parsed
  }

  /** Reads the options that name the server, without the other options of a job. */
  def ofServer(entries: java.util.Map[String, String]): ReplicateOptions =
    parse((Map("target" -> "none", "checkpoint" -> "none") ++ entries.asScala).toSeq)

  private def check(options: ReplicateOptions): Either[String, ReplicateOptions] = {
    import options._
    def missing(name: String) = s"The option '$name' is missing."
    Seq(
      url.isEmpty -> missing("url"),
      slot.isEmpty -> missing("slot"),
      publications.isEmpty -> missing("publication"),
      target.isEmpty -> missing("target"),
      checkpoint.isEmpty -> missing("checkpoint"),
      tableName.exists(!_.contains("{table}")) -> "The option 'tableName' must contain {table}.",
      (hiding.salt.isEmpty && hiding.tables.exists(_._2.hashed.nonEmpty)) ->
        "The option 'hashColumns.<table>' needs a salt. Set 'hashSaltFile' or 'hashSaltVariable'."
    ).collectFirst { case (true, problem) => problem }.orElse(options.sameTable).toLeft(options)
  }
}

/** A pattern of names of tables with their schemas, in which `*` matches any characters, and `?` matches one. */
final case class TableGlob(text: String) {
  private val regex = (if (text.contains('.')) text else s"public.$text").map {
    case '*'   => ".*"
    case '?'   => "."
    case other => Pattern.quote(other.toString)
  }.mkString("(?s)", "", "").r

  def matches(table: TableName): Boolean = regex.matches(table.toString)
}

/** Writes the list of the options as JSON. The build runs it, and Python reads the file. */
object ReplicateOptionsFile {
  def main(arguments: Array[String]): Unit =
    Files.writeString(Path.of(arguments.head), ReplicateOptions.list.json)
}
