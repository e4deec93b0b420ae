package io.sparkpgoutput.changes.sql

import java.util.Locale

import org.apache.spark.sql.catalyst.CatalystTypeConverters
import org.apache.spark.sql.catalyst.expressions.{Cast, Literal}
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{DataType, StringType, StructType}

import io.sparkpgoutput.changes.TablePattern
import io.sparkpgoutput.changes.rows.{ChangeFilter, ChangeFormat, ChangeSchema, TableFormat}
import io.sparkpgoutput.changes.transactions.AssemblerOptions
import io.sparkpgoutput.options.{OptionEntry, OptionList, OptionSpec, RowOptions}
import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.sql.SchemaArgument

/**
 * The options of the table functions, as [[ChangesOptions.list]] describes them.
 *
 * @param schema the columns of the table; None if one column has them all
 * @param asVariant true if that column is a VARIANT; false if it is a map
 * @param row the options for the values
 */
final case class ChangesOptions(
    data: String = "data",
    source: Option[String] = None,
    tables: Option[Seq[TablePattern]] = None,
    schema: Option[StructType] = None,
    asVariant: Option[Boolean] = None,
    ignoreEvolution: Boolean = false,
    after: Long = 0,
    relations: Option[String] = None,
    skipIncomplete: Boolean = false,
    abandoned: Seq[AbandonedTransaction] = Nil,
    row: RowOptions = RowOptions()
) {
  def assembler: AssemblerOptions = AssemblerOptions(after, skipIncomplete, row.conversion.encoding)

  /** The options that a plan shows. */
  def shown: Seq[String] = Seq(
    tables.map(patterns => s"tables=${patterns.mkString(",")}"),
    Option.when(after != 0)(s"after=${Lsn.format(after)}"),
    relations.map(view => s"relations=$view")
  ).flatten

  /** The format of rows with all columns, with the settings of the session. */
  def format(conf: SQLConf): ChangeFormat = {
    val table = schema match {
      case Some(columns) =>
        TableFormat.Columns(columns, ignoreEvolution, conf.caseSensitiveAnalysis)
      case None if asVariant.contains(true) => TableFormat.AsVariant
      case None                             => TableFormat.AsMap
    }
    ChangeFormat(
      table,
      table.columns.indices,
      ChangeSchema.schema.indices,
      ChangeFilter(tables),
      row.conversionIn(DateTimeUtils.getZoneId(conf.sessionLocalTimeZone)),
      row.types,
      failFast = row.failFast
    )
  }
}

/**
 * A streamed transaction that the user gives up.
 *
 * @param source the text of the value in the column of sources; None without the option `source`
 */
final case class AbandonedTransaction(source: Option[String], xid: Long)

/**
 * The xids that the user gives up in a source. Each source has xids of its own. The text of a source is that of a
 * cast. NULL has none, so no transaction of this source is given up.
 *
 * @param sourceType the type of the column of sources
 */
final case class AbandonedXids(
    transactions: Seq[AbandonedTransaction],
    sourceType: DataType,
    timeZone: String
) extends (Any => Set[Long]) {

  /** @param source the value, of Spark's rows or of its internal rows */
  override def apply(source: Any): Set[Long] = transactions.collect {
    case AbandonedTransaction(named, xid) if named.forall(text(source).contains(_)) => xid
  }.toSet

  private def text(source: Any) = {
    val value = Literal(CatalystTypeConverters.convertToCatalyst(source), sourceType)
    Option(Cast(value, StringType, Some(timeZone)).eval()).map(_.toString)
  }
}

object ChangesOptions {

  /** The options of `pgoutput_changes`. */
  val list: OptionList[ChangesOptions] = new OptionList(
    ChangesOptions(),
    Seq(
      OptionSpec.text[ChangesOptions](
        "data",
        "the name of a column",
        "data",
        "The column with the messages."
      )((options, name) => options.copy(data = name)),
      OptionSpec.text[ChangesOptions](
        "source",
        "the name of a column",
        "none: all messages are from one slot",
        "The column that says which slot a message comes from, if there are several slots."
      )((options, name) => options.copy(source = Some(name))),
      OptionSpec[ChangesOptions](
        "tables",
        TableNames,
        "all tables",
        "The result has only the changes of these tables."
      )(parseTables),
      OptionSpec[ChangesOptions](
        "schema",
        "the columns as DDL",
        "none: the option row applies",
        "The columns of one table, each of which becomes a column of the result."
      )(parseSchema),
      OptionSpec.choice[ChangesOptions, Boolean](
        "row",
        "map",
        "If there is no schema, one column of the result has all columns of a table. It has this type."
      )("map" -> false, "variant" -> true)((options, chosen) =>
        options.copy(asVariant = Some(chosen))
      ),
      OptionSpec[ChangesOptions](
        "schemaEvolution",
        Evolutions,
        "error",
        "With error, a column that does not fit the schema is an error. With ignore, the result does not " +
          "have its values."
      )(parseEvolution),
      OptionSpec.parsed[ChangesOptions, Long](
        "after",
        "a _commit_version, or an LSN such as 16/B374D848",
        "0",
        "The result has only commits above this one. Give the last commit of the messages of an earlier " +
          "read, also if the result had no rows of it."
      )(lsn => lsn.toLongOption.orElse(Lsn.parse(lsn)))((options, lsn) =>
        options.copy(after = lsn)
      ),
      OptionSpec.text[ChangesOptions](
        "relations",
        "the name of a table or view",
        "none",
        "The table or view has earlier messages. The function takes the definitions of tables from them."
      )((options, name) => options.copy(relations = Some(name))),
      OptionSpec.choice[ChangesOptions, Boolean](
        "incomplete",
        "error",
        "With error, a transaction that is committed and began before the first message is an error. " +
          "With skip, its changes are left out."
      )("error" -> false, "skip" -> true)((options, chosen) =>
        options.copy(skipIncomplete = chosen)
      ),
      OptionSpec.parsed[ChangesOptions, Seq[AbandonedTransaction]](
        "abandon",
        "xids, with commas between them; with source, a source before each xid, as in shop:790",
        "none",
        "The function gives up the streamed transactions with these xids. Their ends never come."
      )(parseAbandoned)((options, abandoned) => options.copy(abandoned = abandoned))
    ) ++ RowOptions.row.specs.map(
      _.within[ChangesOptions](_.row)((options, row) => options.copy(row = row))
    )
  )

  final private val TableNames =
    "names such as public.orders, \"My\".\"Table\" or sales.*, with commas between them"
  final private val Evolutions = "error, ignore"

  /** Reads the options, with names in any case. `Left` says what is wrong. */
  def parse(options: Seq[(String, String)]): Either[String, ChangesOptions] =
    list.parse(options).flatMap(check)

  private def check(options: ChangesOptions): Either[String, ChangesOptions] =
    if (options.schema.isDefined && options.asVariant.isDefined) {
      Left(
        "The options 'schema' and 'row' exclude each other. With a schema, each column of the table " +
          "is a column of the result."
      )
    } else if (options.source.isDefined && options.after != 0) {
      Left(
        "The option 'after' is for one source. Read one source at a time: use a view that has only the " +
          "messages of this source, and leave out the option 'source'."
      )
    } else {
      options.abandoned.collectFirst {
        case AbandonedTransaction(None, xid) if options.source.isDefined =>
          s"'$xid' in the option 'abandon' names no source. With the option 'source', write " +
            s"'<source>:$xid', because each source has xids of its own."
        case AbandonedTransaction(Some(source), xid) if options.source.isEmpty =>
          s"'$source:$xid' in the option 'abandon' names a source, but the option 'source' is not " +
            s"set. Write '$xid', or set the option 'source'."
      }.toLeft(options)
    }

  private def parseTables(options: ChangesOptions, entry: OptionEntry) = TablePattern
    .parse(entry.value)
    .left
    .map(rest =>
      s"'${entry.value}' is not valid for the option 'tables', from '$rest' on. The valid values are " +
        s"$TableNames."
    )
    .map(patterns => options.copy(tables = Some(patterns)))

  private def parseSchema(options: ChangesOptions, entry: OptionEntry) = {
    val schema = SchemaArgument.parse(Literal(entry.value), "the option 'schema'").toNullable
    val reserved = ChangeSchema.schema.fieldNames.toSet + ChangeSchema.Source
    val all = schema.fieldNames.toSeq
    val names = if (SQLConf.get.caseSensitiveAnalysis) all else all.map(lower)
    all.find(name => reserved(lower(name)))
      .map(name =>
        s"The column '$name' of the schema has the name of a column that all changes have. Rename it " +
          "in PostgreSQL, or use the option 'row' in place of 'schema'."
      )
      .orElse(
        names.diff(names.distinct).headOption.map(name =>
          s"The schema has two columns '$name', which Spark cannot distinguish. Set " +
            "spark.sql.caseSensitive to true, or use the option 'row' in place of 'schema'."
        )
      )
      .toLeft(options.copy(schema = Some(schema)))
  }

  private def parseEvolution(options: ChangesOptions, entry: OptionEntry) =
    entry.value.toLowerCase(Locale.ROOT) match {
      case "error"  => Right(options.copy(ignoreEvolution = false))
      case "ignore" => Right(options.copy(ignoreEvolution = true))
      case "merge"  => Left(mergedSchema)
      case _        => Left(entry.invalid(Evolutions))
    }

  private def mergedSchema =
    "The option 'schemaEvolution' cannot be 'merge' in SQL, where it can be error or ignore. Give the " +
      "option 'schema' the merged_schema that pgoutput_tables returns for the table instead."

  /** The xid of an entry is after its last colon, because the text of a source can have colons. */
  private def parseAbandoned(list: String): Option[Seq[AbandonedTransaction]] = {
    val entries = list.split(",").toSeq.map { entry =>
      val (source, xid) = entry.trim.splitAt(entry.trim.lastIndexOf(':') + 1)
      val named = Option.when(source.nonEmpty)(source.dropRight(1))
      xid.trim.toLongOption.map(AbandonedTransaction(named, _))
    }
    Option.when(entries.forall(_.isDefined))(entries.flatten)
  }

  private def lower(name: String) = name.toLowerCase(Locale.ROOT)
}
