package io.sparkpgoutput.sql

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.expressions.{Expression, ExpressionInfo, Literal}

/**
 * A function of SQL, as Spark registers it.
 *
 * @param needed the number of arguments that each call has
 * @param most the number of arguments with the optional ones
 * @param replacement the expression that evaluates a call
 */
final class SqlFunction(
    val name: String,
    needed: Int,
    most: Int,
    description: FunctionDescription
)(replacement: CallArguments => Expression) {

  def identifier: FunctionIdentifier = FunctionIdentifier(name)
  def info: ExpressionInfo = description.info(name)

  /** A call with the arguments in a query, which the analyzer has resolved. */
  def call(arguments: Seq[Expression]): Expression = {
    CallArguments.checkPositional(name, arguments)
    if (arguments.length < needed || arguments.length > most) throw wrongNumber(arguments.length)
    val padded = arguments.padTo(most, SqlFunction.LeftOut)
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

  private def wrongNumber(actual: Int) = new AnalysisException(
    "WRONG_NUM_ARGS.WITHOUT_SUGGESTION",
    Map(
      "functionName" -> s"`$name`",
      "expectedNum" -> (if (needed == most) s"$needed"
                        else (needed to most).mkString("[", ", ", "]")),
      "actualNum" -> actual.toString,
      "docroot" -> "https://spark.apache.org/docs/latest"
    )
  )
}

private object SqlFunction {
  val LeftOut: Literal = Literal(null)
}
