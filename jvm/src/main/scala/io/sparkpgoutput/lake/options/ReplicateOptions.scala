package io.sparkpgoutput.lake.options

import scala.jdk.CollectionConverters._
import scala.util.Try

import org.apache.spark.network.util.JavaUtils

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.lake.LakeError
import io.sparkpgoutput.lake.copy.CopySource
import io.sparkpgoutput.lake.table.TableMode
import io.sparkpgoutput.lake.target.{TableProperties, TargetNames}
import io.sparkpgoutput.options.{OptionEntry, OptionList, OptionSpec}
import io.sparkpgoutput.source.PublicationNames
import io.sparkpgoutput.source.connection.ServerAddress

/**
 * The options of `replicate`.
 *
 * @param target a namespace of a catalog, or a folder of Delta tables
 * @param once true ends the job when it has everything that was there at its start
 * @param format None if the catalog decides
 * @param tableName the template for names in the target
 * @param names the names in the target by those of the source, which win over the template
 * @param types the Spark types of columns, by `column` or `schema.table.column`
 * @param mode the name of the mode of all tables that `modes` does not name
 * @param modes the names of modes by the names of tables at the source
 * @param historyPrefix the text with which the names of the added columns of new histories begin
 * @param tableProperties properties of each table that the job makes
 * @param copies the number of tables that are copied at the same time
 * @param applies the number of tables to which a micro-batch is applied at the same time
 * @param repairs true takes a change that the table does not fit; false makes it an error
 * @param skips true stops a table that has an error; false stops the job
 * @param copiesChanged
 *   true copies a table again that was altered in a way that changes do not tell; false makes it an
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
    once: Boolean = false,
    format: Option[String] = None,
    tableName: Option[String] = None,
    names: Map[String, String] = Map.empty,
    types: Map[String, String] = Map.empty,
    mode: String = TableMode.Mirror.name,
    modes: Map[String, String] = Map.empty,
    historyPrefix: String = TableMode.History.DefaultPrefix,
    tableProperties: Map[String, String] = Map.empty,
    failover: Boolean = false,
    copies: Int = 2,
    applies: Int = 4,
    repairs: Boolean = false,
    skips: Boolean = false,
    copiesChanged: Boolean = true,
    maxBytesPerTrigger: String = "1g"
) {

  /** The mode that a new table gets. */
  def modeOf(table: TableName): TableMode = TableMode.of(
    modes.collectFirst { case (name, found) if TargetNames.isOf(name, table) => found }
      .getOrElse(mode),
    historyPrefix
  ).get

  def address: ServerAddress = ServerAddress(url, user, password)

  /** The server and the publications from which the tables are copied. */
  def source: CopySource = CopySource(address, applicationName, publications)

  /** What `pg_stat_activity` shows of the job's connections. */
  def applicationName: String = s"spark-pgoutput (slot $slot)"

  override def toString: String = s"the slot $slot at ${address.shown} into $target"
}

object ReplicateOptions {

  /** All options. */
  val list: OptionList[ReplicateOptions] = new OptionList(
    ReplicateOptions(),
    Seq(
      text("url", "a URL of PostgreSQL's JDBC driver", Required, "The address of the server.")(
        (options, url) => options.copy(url = url)
      ),
      text("user", "a role", "the role in the URL", "The role that connects to the server.")(
        (options, user) =>
          options.copy(user = Some(user))
      ),
      text(
        "password",
        "a text",
        "the password in the URL or in a pgpass file",
        "The password of the role."
      )((options, password) => options.copy(password = Some(password))),
      text(
        "slot",
        "the name of a slot",
        Required,
        "The replication slot. The job makes it at its first start."
      )((options, slot) => options.copy(slot = slot)),
      OptionSpec.parsed[ReplicateOptions, Seq[String]](
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
      text(
        "checkpoint",
        "a folder",
        Required,
        "Spark keeps the position of the stream in this folder."
      )((options, checkpoint) => options.copy(checkpoint = checkpoint)),
      flag(
        "once",
        "If true, the job ends when it has applied all changes that existed at its start."
      )((options, once) => options.copy(once = once)),
      OptionSpec.choice[ReplicateOptions, String](
        "format",
        "what the catalog writes; delta for a folder",
        "The format of the tables."
      )("delta" -> "delta", "iceberg" -> "iceberg")((options, format) =>
        options.copy(format = Some(format))
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
      OptionSpec.choice[ReplicateOptions, String](
        "mode",
        TableMode.Mirror.name,
        "With mirror, the target has the rows of a table. With history, it has all changes of the table."
      )(TableMode.names.map(name => name -> name): _*)((options, mode) =>
        options.copy(mode = mode)
      ),
      OptionSpec[ReplicateOptions](
        "mode.<table>",
        TableMode.names.mkString(", "),
        "the option mode applies",
        "The mode of this table."
      )((options, entry) =>
        suffix(entry).flatMap { table =>
          TableMode.names.find(_.equalsIgnoreCase(entry.value))
            .map(mode => options.copy(modes = options.modes + (table -> mode)))
            .toRight(entry.invalid(TableMode.names.mkString(", ")))
        }
      ),
      OptionSpec.parsed[ReplicateOptions, String](
        "historyPrefix",
        "letters, digits and _",
        TableMode.History.DefaultPrefix,
        "The names of the columns that a history adds to those of the table begin with this text."
      )(prefix => Some(prefix).filter(_.matches("[A-Za-z0-9_]+")))((options, prefix) =>
        options.copy(historyPrefix = prefix)
      ),
      OptionSpec[ReplicateOptions](
        "property.<name>",
        "a text",
        "a value that makes MERGE cheap",
        "The value of this property in all tables that the job makes."
      )((options, entry) =>
        suffix(entry).filterOrElse(
          !TableProperties.isReserved(_),
          s"The option '${entry.name}' is a property that Spark sets itself. Leave it out."
        ).map(name =>
          options.copy(tableProperties = options.tableProperties + (name -> entry.value))
        )
      ),
      flag(
        "failover",
        "If true, the job makes a slot that is synchronized to standbys. This needs PostgreSQL 17."
      )((options, failover) => options.copy(failover = failover)),
      number(
        "parallelCopies",
        2,
        "The number of tables that the first copy reads at the same time."
      )((options, copies) => options.copy(copies = copies)),
      number(
        "parallelTables",
        4,
        "The number of tables to which the job applies a micro-batch at the same time."
      )((options, applies) => options.copy(applies = applies)),
      OptionSpec.choice[ReplicateOptions, Boolean](
        "onDrift",
        "error",
        "A change does not fit if the target lacks the row that it changes, or has the row that it " +
          "inserts. With error, such a change is an error. With repair, the job takes and counts it."
      )("error" -> false, "repair" -> true)((options, repairs) => options.copy(repairs = repairs)),
      OptionSpec.choice[ReplicateOptions, Boolean](
        "onTableError",
        "stop",
        "With stop, an error of one table stops the job. With skip, the error stops only this table, " +
          "until you copy the table again."
      )("stop" -> false, "skip" -> true)((options, skips) => options.copy(skips = skips)),
      OptionSpec.choice[ReplicateOptions, Boolean](
        "onSchemaChange",
        "copy",
        "A table can be altered in a way that its changes do not tell. With copy, the job then copies " +
          "the table again while the stream goes on. With error, the table has an error."
      )("copy" -> true, "error" -> false)((options, copies) =>
        options.copy(copiesChanged = copies)
      ),
      OptionSpec.parsed[ReplicateOptions, String](
        "maxBytesPerTrigger",
        "a size such as 512m or 2g",
        "1g",
        "The greatest size of a micro-batch, in bytes of WAL. A transaction is never split."
      )(size =>
        Some(size).filter(size => Try(JavaUtils.byteStringAsBytes(size)).toOption.exists(_ > 0))
      )((options, size) => options.copy(maxBytesPerTrigger = size))
    )
  )

  final private val Required = "required"

  /**
   * Reads the options.
   *
   * @throws LakeException if one is missing, unknown or wrong
   */
  def parse(entries: Seq[(String, String)]): ReplicateOptions = {
    val set = entries.filter(_._2 != null)
    val parsed = list.parse(set).flatMap(check)
      .fold(problem => throw LakeError.option(problem), identity)
    parsed.address.check()
    parsed
  }

  /** Reads the options that tell the server and the target, without the others. */
  def ofServer(entries: java.util.Map[String, String]): ReplicateOptions =
    parse((entries.asScala.toMap + ("checkpoint" -> "none")).toSeq)

  private def check(options: ReplicateOptions): Either[String, ReplicateOptions] = {
    import options._
    def missing(name: String) = s"The option '$name' is missing."
    Seq(
      url.isEmpty -> missing("url"),
      slot.isEmpty -> missing("slot"),
      publications.isEmpty -> missing("publication"),
      target.isEmpty -> missing("target"),
      checkpoint.isEmpty -> missing("checkpoint"),
      tableName.exists(!_.contains("{table}")) -> "The option 'tableName' must contain {table}."
    ).collectFirst { case (true, problem) => problem }.toLeft(options)
  }

  private def text(name: String, values: String, default: String, description: String)(
      set: (ReplicateOptions, String) => ReplicateOptions
  ) = OptionSpec.text[ReplicateOptions](name, values, default, description)(set)

  private def flag(name: String, description: String)(
      set: (ReplicateOptions, Boolean) => ReplicateOptions
  ) = OptionSpec.choice[ReplicateOptions, Boolean](name, "false", description)(
    "true" -> true,
    "false" -> false
  )(set)

  private def number(name: String, default: Int, description: String)(
      set: (ReplicateOptions, Int) => ReplicateOptions
  ) = OptionSpec.parsed[ReplicateOptions, Int](name, "1 to 100", default.toString, description)(
    _.toIntOption.filter(number => number >= 1 && number <= 100)
  )(set)

  /** An option for each table or column, whose name follows a point. */
  private def prefixed(name: String, values: String, default: String, description: String)(
      set: (ReplicateOptions, String, String) => ReplicateOptions
  ) = OptionSpec[ReplicateOptions](name, values, default, description)((options, entry) =>
    suffix(entry).map(set(options, _, entry.value))
  )

  private def suffix(entry: OptionEntry): Either[String, String] =
    Some(entry.name.dropWhile(_ != '.').drop(1)).filter(_.nonEmpty)
      .toRight(s"The option '${entry.name}' lacks a name after the point.")
}
