package io.sparkpgoutput.changes.sql

import java.util.Locale

import org.apache.spark.sql.catalyst.expressions.{ExprUtils, Literal}
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType

import io.sparkpgoutput.changes.TablePattern
import io.sparkpgoutput.changes.rows.{ChangeFilter, ChangeFormat, ChangeSchema, TableFormat}
import io.sparkpgoutput.changes.transactions.AssemblerOptions
import io.sparkpgoutput.options.FunctionOptions.invalid
import io.sparkpgoutput.options.{FunctionOptions, ParseMode, RowOptions}
import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.rows.RowSchema

/**
 * The options of the functions that follow streams.
 *
 * @param data
 *   the column of the messages
 * @param source
 *   the column that tells streams apart
 * @param tables
 *   whose changes are wanted; None for all
 * @param schema
 *   the table's columns; None for all in one
 * @param asVariant
 *   whether that one is a VARIANT, or a map
 * @param ignoreEvolution
 *   whether a column that does not go with the schema is left out or an error
 * @param after
 *   the LSN of the last commit that an earlier read gave out; 0 where there was none
 * @param relations
 *   the name of a view with earlier messages
 * @param skipIncomplete
 *   whether a commit of which the beginning is not there is left out or an error
 * @param abandoned
 *   the xids of streamed transactions that will not come to an end
 * @param row
 *   how values are read
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
    abandoned: Set[Long] = Set.empty,
    row: RowOptions = RowOptions.none
) {
  def assembler: AssemblerOptions = AssemblerOptions(after, skipIncomplete, row.conversion.encoding)

  /** The rows of changes, all of them; with the session's settings. */
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
      failFast = !row.mode.contains(ParseMode.Permissive)
    )
  }
}

object ChangesOptions {

  private type Reader = (ChangesOptions, String) => Either[String, ChangesOptions]

  /** Those that are not pgoutput_row's. */
  private val readers: Seq[(String, Reader)] = Seq(
    "data" -> ((options, name) => Right(options.copy(data = name))),
    "source" -> ((options, name) => Right(options.copy(source = Some(name)))),
    "tables" -> parseTables,
    "schema" -> parseSchema,
    "row" -> ((options, name) =>
      choose("row", name, "map" -> false, "variant" -> true)
        .map(chosen => options.copy(asVariant = Some(chosen)))
    ),
    "schemaEvolution" -> ((options, name) =>
      if (name.equalsIgnoreCase("merge")) Left(mergedSchema)
      else
        choose("schemaEvolution", name, "error" -> false, "ignore" -> true)
          .map(chosen => options.copy(ignoreEvolution = chosen))
    ),
    "after" -> parseAfter,
    "relations" -> ((options, name) => Right(options.copy(relations = Some(name)))),
    "incomplete" -> ((options, name) =>
      choose("incomplete", name, "error" -> false, "skip" -> true)
        .map(chosen => options.copy(skipIncomplete = chosen))
    ),
    "abandon" -> parseXids
  )
  private val readerOf: Map[String, Reader] =
    readers.map { case (name, reader) => lower(name) -> reader }.toMap

  private def lower(name: String) = name.toLowerCase(Locale.ROOT)

  /** Reads the options, names in any case; Left says what is wrong with them. */
  def parse(options: Seq[(String, String)]): Either[String, ChangesOptions] = {
    val (own, others) = options.partition { case (name, _) => readerOf.contains(lower(name)) }
    for {
      parsed <- FunctionOptions.parse(own, ChangesOptions()) { (parsed, name, value) =>
        if (value == null) Left(s"The option '$name' is NULL") else readerOf(name)(parsed, value)
      }
      row <- RowOptions.parse(others, readers.map(_._1))
      checked <- check(parsed.copy(row = row))
    } yield checked
  }

  private def check(options: ChangesOptions): Either[String, ChangesOptions] =
    if (options.schema.isDefined && options.asVariant.isDefined) {
      Left(
        "The options 'schema' and 'row' exclude each other: with a schema each column is its own"
      )
    } else if (options.source.isDefined && options.after != 0) {
      Left(
        "The option 'after' is of one stream: read one source at a time, from a view that has its " +
          "messages only, without the option 'source'"
      )
    } else Right(options)

  private def mergedSchema =
    "The option 'schemaEvolution' cannot be 'merge' in SQL, where it can be error or ignore. Give the " +
      "option 'schema' the merged_schema that pgoutput_tables returns for the table instead."

  private def choose[T](option: String, name: String, valid: (String, T)*): Either[String, T] =
    valid
      .collectFirst { case (known, value) if known.equalsIgnoreCase(name) => value }
      .toRight(invalid(option, name, valid.map(_._1)))

  private def parseTables(options: ChangesOptions, list: String) = TablePattern
    .parse(list)
    .left
    .map(rest =>
      s"'$list' is not valid for the option 'tables', from '$rest' on; valid are names such as " +
        "public.orders, \"My\".\"Table\" or sales.*, with commas between them"
    )
    .map(patterns => options.copy(tables = Some(patterns)))

  private def parseSchema(options: ChangesOptions, ddl: String) = {
    val schema = RowSchema.nullable(ExprUtils.evalSchemaExpr(Literal(ddl)))
    val reserved = ChangeSchema.schema.fieldNames.toSet + ChangeSchema.Source
    schema.fieldNames
      .find(name => reserved(lower(name)))
      .map(name =>
        s"The schema's column '$name' has the name of a column that all changes have; rename it in " +
          "PostgreSQL, or use the option 'row' in place of 'schema'"
      )
      .orElse(
        repeated(schema.fieldNames.toSeq).map(name =>
          s"The schema has two columns '$name', which Spark cannot tell apart: set " +
            "spark.sql.caseSensitive, or use the option 'row' in place of 'schema'"
        )
      )
      .toLeft(options.copy(schema = Some(schema)))
  }

  private def repeated(names: Seq[String]): Option[String] = {
    val keys = if (SQLConf.get.caseSensitiveAnalysis) names else names.map(lower)
    keys.diff(keys.distinct).headOption
  }

  private def parseAfter(options: ChangesOptions, lsn: String) = lsn.toLongOption
    .orElse(Lsn.parse(lsn))
    .toRight(invalid("after", lsn, Seq("a _commit_version", "an LSN such as 16/B374D848")))
    .map(parsed => options.copy(after = parsed))

  private def parseXids(options: ChangesOptions, list: String) = {
    val xids = list.split(",").map(_.trim).map(xid => xid.toLongOption)
    Either.cond(
      xids.forall(_.isDefined),
      options.copy(abandoned = xids.flatten.toSet),
      invalid("abandon", list, Seq("xids, with commas between them"))
    )
  }
}
