package io.sparkpgoutput.sql

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.pgoutput.CallErrors

/**
 * A function of SQL, as Spark registers it. It takes the arguments that its description names.
 *
 * @param needed the number of arguments that each call has
 * @param replacement the expression that evaluates a call
 */
final class SqlFunction(
    val name: String,
    needed: Int,
    description: FunctionDescription
)(replacement: CallArguments => Expression) {

  def identifier: FunctionIdentifier = FunctionIdentifier(name)
  def info: ExpressionInfo = description.info(name)

  /** A call with the arguments in a query, which the analyzer has resolved. */
  def call(arguments: Seq[Expression]): Expression = {
    CallArguments(name, arguments).checkPositional()
    val wanted = needed to description.arguments.length
    if (!wanted.contains(arguments.length))
      throw CallErrors.wrongNumber(name, wanted, arguments.length)
    val padded = arguments.padTo(wanted.last, Literal(null))
    FunctionCall(name, shown(arguments), replacement(CallArguments(name, padded)))
  }

  /** The arguments without the NULLs at the end, which say the same as no argument. */
  private def shown(arguments: Seq[Expression]): Seq[Expression] = {
    val (first, optional) = arguments.splitAt(needed)
    first ++ optional.reverse.dropWhile {
      case Literal(null, _) => true
      case _                => false
    }.reverse
  }
}

/**
 * A call of one of the functions, as the user wrote it. The analyzer shows it, and derives the names of
 * columns from it. The optimizer puts `replacement` in its place, which has the arguments as plain values and
 * evaluates the call.
 */
case class FunctionCall(
    override val prettyName: String,
    parameters: Seq[Expression],
    replacement: Expression
) extends RuntimeReplaceable
    with InheritAnalysisRules {

  override protected def withNewChildInternal(newChild: Expression): FunctionCall =
    copy(replacement = newChild)
}

/**
 * The text of a function in `DESCRIBE FUNCTION EXTENDED`. Spark replaces `_FUNC_` by its name. Lines after
 * the first are indented by the margin before `|`.
 *
 * @param arguments one argument an item, as `name - what it is`
 * @param examples queries, each with the lines that spark-sql prints for it
 * @param note more paragraphs, or nothing
 * @param before a statement that the examples need, or nothing
 */
final case class FunctionDescription(
    usage: String,
    arguments: Seq[String],
    examples: Seq[(String, Seq[String])],
    note: String = "",
    group: String,
    before: String = "",
    since: String = "0.1.0"
) {
  import FunctionDescription._

  def info(name: String, className: String = classOf[SqlFunction].getName): ExpressionInfo =
    new ExpressionInfo(
      className,
      null,
      name,
      lines("_FUNC_" + usage.stripMargin),
      lines("Arguments:\n" + arguments.map(a => s"  * ${a.stripMargin}").mkString("\n")),
      lines("Examples:\n" + (statement ++ examples.map(example)).mkString("\n")),
      if (note.isEmpty) "" else lines(note.stripMargin),
      group,
      since,
      "",
      "built-in"
    )

  private def statement = Option.when(before.nonEmpty)(s"  > $before;")
}

object FunctionDescription {

  /** Indents each line. Spark needs a line break and spaces at both ends of each part. */
  private def lines(text: String): String =
    text.linesIterator.map(line => s"\n    $line").mkString + "\n  "

  private def example(queryAndResult: (String, Seq[String])): String =
    (s"  > SELECT ${queryAndResult._1};" +: queryAndResult._2.map("   " + _)).mkString("\n")
}
