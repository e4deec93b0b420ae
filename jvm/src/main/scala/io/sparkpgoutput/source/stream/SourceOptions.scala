package io.sparkpgoutput.source.stream

import java.time.Duration
import java.util.Locale

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.util.CaseInsensitiveStringMap

import io.sparkpgoutput.changes.sql.ChangesOptions
import io.sparkpgoutput.changes.{TableName, TablePattern}
import io.sparkpgoutput.errors.SourceException
import io.sparkpgoutput.options._
import io.sparkpgoutput.source.PublicationNames
import io.sparkpgoutput.source.connection.{ServerAddress, ServerClient}
import io.sparkpgoutput.source.session.SessionSettings

/**
 * The options of `format("pgoutput")`.
 *
 * @param asMessages true returns the messages; false returns the changes of tables
 * @param maxBytesPerTrigger the greatest size of a batch, in bytes of WAL
 * @param idleInterval the time from a batch without rows to the next one
 * @param table
 *   the one table whose columns are those of the source, as the server's catalog has them
 * @param changes the options that `pgoutput_changes` has too
 */
final case class SourceOptions(
    url: String = "",
    user: Option[String] = None,
    password: Option[String] = None,
    slot: String = "",
    publications: Seq[String] = Nil,
    asMessages: Boolean = false,
    binary: Boolean = false,
    maxBytesPerTrigger: Long = 1L << 30,
    idleInterval: Duration = Duration.ofSeconds(1),
    createSlot: Boolean = false,
    failover: Boolean = false,
    table: Option[TableName] = None,
    changes: ChangesOptions = ChangesOptions()
) {
  def address: ServerAddress = ServerAddress(url, user, password)

  /** A client of the server. `pg_stat_activity` shows its connections by the slot. */
  def client(): ServerClient = new ServerClient(address, s"spark-pgoutput (slot $slot)")

  /**
   * The settings of a session.
   *
   * @param id the UUID of the source
   * @param run the UUID of this start of the query
   */
  def session(id: String, run: String): SessionSettings =
    SessionSettings(address.forTasks, id, run, slot, publications, binary)

  override def toString: String = s"slot $slot at ${address.shown}"
}

object SourceOptions {

  /** All options. */
  val list: OptionList[SourceOptions] = new OptionList(
    SourceOptions(),
    Seq(
      required("url", "a URL of PostgreSQL's JDBC driver", "The address of the server.")(
        (options, url) =>
          options.copy(url = url)
      ),
      SharedOptions.user[SourceOptions]((options, user) => options.copy(user = Some(user))),
      SharedOptions.password[SourceOptions]((options, password) =>
        options.copy(password = Some(password))
      ),
      required(
        "slot",
        "the name of a slot",
        "The logical replication slot with the plugin pgoutput."
      )((options, slot) => options.copy(slot = slot)),
      OptionSpec.parsed[SourceOptions, Seq[String]](
        "publication",
        PublicationNames.Values,
        Required,
        "The source reads the tables of these publications."
      )(PublicationNames.parse)((options, publications) =>
        options.copy(publications = publications)
      ),
      OptionSpec.choice[SourceOptions, Boolean](
        "output",
        "changes",
        "With changes, the source returns the changes of tables. With messages, it returns the messages " +
          "of pgoutput."
      )("changes" -> false, "messages" -> true)((options, asMessages) =>
        options.copy(asMessages = asMessages)
      ),
      OptionSpec.flag[SourceOptions](
        "binary",
        "If true, the source asks the server for binary values."
      )((options, binary) =>
        options.copy(binary = binary)
      ),
      OptionSpec.parsed[SourceOptions, Long](
        "maxBytesPerTrigger",
        "a size such as 512m or 2g, at least 1 byte",
        "1g",
        "The greatest size of a batch, in bytes of WAL. A transaction is never split."
      )(OptionValues.size)((options, bytes) => options.copy(maxBytesPerTrigger = bytes)),
      OptionSpec.parsed[SourceOptions, Duration](
        "idleInterval",
        "a time such as 500ms or 10s",
        "1s",
        "The time from a batch without rows to the next batch."
      )(OptionValues.time)((options, interval) => options.copy(idleInterval = interval)),
      OptionSpec.flag[SourceOptions](
        "createSlot",
        "If true, a stream makes the slot at its first start, unless the slot exists."
      )((options, createSlot) => options.copy(createSlot = createSlot)),
      OptionSpec.flag[SourceOptions](
        "failover",
        "If true, the stream makes a slot that is synchronized to standbys. This needs PostgreSQL 17 and " +
          "createSlot."
      )((options, failover) => options.copy(failover = failover)),
      OptionSpec[SourceOptions](
        "table",
        OneTable,
        "none: the option schema or row applies",
        "The result has only the changes of this table, with the columns that the publications send."
      )(parseTable)
    ) ++ ofChanges
  )

  final private val Required = "required"
  final private val OneTable = "one name such as public.orders or \"My\".\"Table\""

  /** The options that users may expect and that do not exist, each with the reason. */
  private val refused: Map[String, String] = Map(
    "encoding" -> "the server sends UTF-8 to this source.",
    "datestyle" -> "the server sends dates in the style ISO to this source.",
    "streaming" -> "the server sends whole transactions to this source.",
    "twophase" -> "a prepared transaction comes when it is committed.",
    "messages" -> "the messages of pg_logical_emit_message are not requested.",
    "protoversion" -> "all versions of the protocol send the same to this source.",
    "startingoffsets" -> "a stream begins where the slot is, or where its checkpoint is.",
    "startingoffset" -> "a stream begins where the slot is, or where its checkpoint is.",
    "driver" -> "the source has its own PostgreSQL driver.",
    "dbtable" -> "set 'table' or 'tables'.",
    "path" -> "set 'url' and 'slot'."
  )

  /**
   * Reads the options.
   *
   * @throws SourceException if one is missing, unknown or wrong
   */
  def parse(options: CaseInsensitiveStringMap): SourceOptions = {
    val entries = options.asCaseSensitiveMap.asScala.toSeq.sortBy(_._1)
    for {
      (name, _) <- entries
      reason <- refused.get(name.toLowerCase(Locale.ROOT).replace("_", ""))
    } throw new SourceException(
      "PGOUTPUT_SOURCE_OPTION.NOT_AN_OPTION",
      "option" -> name,
      "reason" -> reason
    )
    val parsed =
      list.parse(entries).flatMap(check).fold(
        problem =>
          throw new SourceException("PGOUTPUT_SOURCE_OPTION.INVALID", "problem" -> problem),
        identity
      )
    parsed.address.check()
    parsed
  }

  private def check(options: SourceOptions): Either[String, SourceOptions] = {
    import options._
    def excluded(one: String, other: String) =
      s"The options '$one' and '$other' exclude each other."
    val row = changes.asVariant.isDefined
    Seq(
      url.isEmpty -> "The option 'url' is missing: set it to the server's JDBC URL.",
      slot.isEmpty -> "The option 'slot' is missing: set it to the name of a replication slot.",
      publications.isEmpty ->
        "The option 'publication' is missing: set it to the names of the publications.",
      (table.isDefined && changes.schema.isDefined) -> excluded("table", "schema"),
      (table.isDefined && row) -> excluded("table", "row"),
      (table.isDefined && changes.tables.isDefined) -> excluded("table", "tables"),
      (changes.schema.isDefined && row) -> excluded("schema", "row"),
      (changes.schema.isDefined && changes.tables.isEmpty) ->
        "The option 'schema' needs the option 'tables', with the table that has this schema.",
      (asMessages && (table.isDefined || row || changes != ChangesOptions())) ->
        "With output 'messages', the options for tables, columns and values have no effect: leave them out.",
      (failover && !createSlot) -> "The option 'failover' needs the option 'createSlot'."
    ).collectFirst { case (true, problem) => problem }.toLeft(options)
  }

  /** The options of `pgoutput_changes`, without the options that say which messages to read. */
  private def ofChanges: Seq[OptionSpec[SourceOptions]] = ChangesOptions.list.specs
    .filterNot(spec => aboutMessages.contains(spec.name))
    .map(_.within[SourceOptions](_.changes)((options, changes) => options.copy(changes = changes)))

  private def aboutMessages = Set(
    "data",
    "source",
    "after",
    "relations",
    "incomplete",
    "abandon",
    "encoding",
    "dateStyle"
  )

  private def required(name: String, values: String, description: String)(
      set: (SourceOptions, String) => SourceOptions
  ) = OptionSpec.text[SourceOptions](name, values, Required, description)(set)

  private def parseTable(options: SourceOptions, entry: OptionEntry) =
    TablePattern.parse(entry.value) match {
      case Right(Seq(TablePattern(namespace, Some(name)))) =>
        Right(options.copy(table = Some(TableName(namespace, name))))
      case _ => Left(entry.invalid(OneTable))
    }
}
