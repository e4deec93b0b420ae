package io.sparkpgoutput.decode.sql

import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke
import org.apache.spark.sql.catalyst.expressions.{Cast, Expression}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import io.sparkpgoutput.errors.PgOutputException
import io.sparkpgoutput.protocol.Lsn
import io.sparkpgoutput.sql.{CallArguments, FunctionDescription, SqlFunction}

/** The functions of LSNs: `pg_lsn_format`, `pg_lsn_parse` and `try_pg_lsn_parse`. */
object LsnFunctions {

  private val Text =
    "text - STRING: two hexadecimal numbers of 1 to 8 digits, padded or not, with a slash between them."

  val format: SqlFunction = function(
    "pg_lsn_format",
    usage = "(lsn) - Returns the text of an LSN, as PostgreSQL's type pg_lsn shows it.",
    parameter = "lsn - BIGINT: the 64 bits of the LSN; the upper half is negative.",
    examples = Seq(
      "_FUNC_(97500059720)" -> Seq("16/B374D848"),
      "_FUNC_(-1)" -> Seq("FFFFFFFF/FFFFFFFF")
    )
  )(LongType, StringType, "formatLsn")

  val parse: SqlFunction = function(
    "pg_lsn_parse",
    usage =
      """(text) - Returns the 64 bits of an LSN from its text. A text that is not an LSN is an error
        |  with the condition PGOUTPUT_INVALID_LSN.""",
    parameter = Text,
    examples = Seq(
      "_FUNC_('16/B374D848')" -> Seq("97500059720"),
      "_FUNC_('16/0000001a') = _FUNC_('16/1A')" -> Seq("true")
    ),
    note =
      """Compare LSNs as numbers, not as text: PostgreSQL 19 pads the text with zeros, earlier
        |versions do not."""
  )(StringType, LongType, "parseLsn")

  val tryParse: SqlFunction = function(
    "try_pg_lsn_parse",
    usage =
      """(text) - Returns the 64 bits of an LSN from its text, or NULL for a text that is not an
        |  LSN.""",
    parameter = Text,
    examples = Seq("_FUNC_('0/1A')" -> Seq("26"), "_FUNC_('1A')" -> Seq("NULL"))
  )(StringType, LongType, "tryParseLsn")

  val all: Seq[SqlFunction] = Seq(format, parse, tryParse)

  private def function(
      name: String,
      usage: String,
      parameter: String,
      examples: Seq[(String, Seq[String])],
      note: String = ""
  )(from: DataType, to: DataType, method: String): SqlFunction = {
    val description = FunctionDescription(usage, Seq(parameter), examples, note, "conversion_funcs")
    new SqlFunction(name, needed = 1, description)(call =>
      StaticInvoke(LsnFunctions.getClass, to, method, Seq(argument(call, from)), Seq(from))
    )
  }

  /** Spark does not cast the arguments of table functions, which may contain an INT literal. */
  private def argument(call: CallArguments, wanted: DataType): Expression = {
    val argument = call.arguments.head
    argument.dataType match {
      case ByteType | ShortType | IntegerType => Cast(argument, LongType)
      case _: StringType if wanted == LongType =>
        throw call.refused(
          "The argument must be the 64 bits of an LSN as a BIGINT, and not STRING. To write the text " +
            "of an LSN as PostgreSQL does, use pg_lsn_format(pg_lsn_parse(…))."
        )
      case _ => argument
    }
  }

  // The methods that the functions call.

  def formatLsn(lsn: Long): UTF8String = UTF8String.fromString(Lsn.format(lsn))

  def parseLsn(text: UTF8String): java.lang.Long =
    Lsn.parse(text.toString)
      .map(Long.box)
      .getOrElse(throw new PgOutputException("PGOUTPUT_INVALID_LSN", "text" -> text))

  def tryParseLsn(text: UTF8String): java.lang.Long =
    Lsn.parse(text.toString).map(Long.box).orNull
}
