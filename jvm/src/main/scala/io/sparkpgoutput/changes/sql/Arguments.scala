package io.sparkpgoutput.changes.sql

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.analysis.{UnresolvedAttribute, UnresolvedRelation}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import io.sparkpgoutput.changes.MessageColumns
import io.sparkpgoutput.sql.{CallArguments, ConstantArgument}

/**
 * The arguments of a table function.
 *
 * @param call the call of the function as SQL
 * @param messages the name of the view with the messages
 * @param order the name of the column that orders them
 */
final case class Arguments(call: String, messages: String, order: String, options: ChangesOptions) {
  import Arguments.NoSource

  /** The messages and, if there are any, the earlier ones, with the columns of [[MessageColumns]]. */
  def inputs: Seq[LogicalPlan] = (messages +: options.relations.toSeq).map { view =>
    columnsOf(new UnresolvedRelation(CatalystSqlParser.parseMultipartIdentifier(view)))
  }

  /** The inputs with a column of sources. It has one value if there is only one source. */
  def keyedInputs: Seq[LogicalPlan] = inputs.map {
    case messages @ Project(columns, _) if options.source.isEmpty =>
      messages.copy(columns :+ named(Literal(NoSource), MessageColumns.Source))
    case messages => messages
  }

  private def columnsOf(view: LogicalPlan): LogicalPlan = Project(
    Seq(
      named(Cast(column(order, ArgumentColumn.Order), LongType), MessageColumns.Position),
      named(column(options.data, ArgumentColumn.Data), MessageColumns.Message)
    ) ++ options.source.map(name =>
      named(column(name, ArgumentColumn.Source), MessageColumns.Source)
    ),
    view
  )

  private def named(column: Expression, ordinal: Int): NamedExpression =
    Alias(column, MessageColumns.names(ordinal))()

  private def column(name: String, purpose: ArgumentColumn.Purpose) =
    ArgumentColumn(UnresolvedAttribute.quotedString(name), purpose)

  /** The error that says what is wrong with the arguments. */
  def refused(problem: String): AnalysisException = CallArguments.refused(call, problem)

  /** The id of the column `_source`. */
  def sourceId: Option[ExprId] = options.source.map(_ => NamedExpression.newExprId)
}

object Arguments {
  import CallArguments.refused

  /** The source of all messages if there is only one. */
  final val NoSource = 0

  private val Usage =
    "The arguments must be the name of a table or view, the name of the column that orders its " +
      "messages, and optionally a constant map of options."

  def of(function: String, arguments: Seq[Expression]): Arguments = {
    val call = s"$function(${arguments.map(_.sql).mkString(", ")})"
    def text(argument: Expression): String = ConstantArgument.value(argument) match {
      case Some(text: UTF8String) => text.toString
      case _                      => throw refused(call, Usage)
    }
    if (arguments.length < 2 || arguments.length > 3) throw refused(call, Usage)
    val options =
      arguments.lift(2).map(ConstantArgument.entries(_).getOrElse(throw refused(call, Usage)))
    ChangesOptions
      .parse(options.getOrElse(Nil))
      .fold(
        problem => throw refused(call, problem),
        Arguments(call, text(arguments.head), text(arguments(1)), _)
      )
  }
}
