package io.sparkpgoutput

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions.{Expression, NamedArgumentExpression}

/** The arguments of a function that takes them by their places only, as most of Spark's own do. */
object PositionalArguments {

  /**
   * The arguments as they are.
   *
   * @throws AnalysisException
   *   where one is given by name: Spark does not look, and would fail later by an internal error
   */
  def of(function: String, arguments: Seq[Expression]): Seq[Expression] =
    if (arguments.exists(_.isInstanceOf[NamedArgumentExpression])) {
      throw new AnalysisException(
        "NAMED_PARAMETERS_NOT_SUPPORTED",
        Map("functionName" -> s"`$function`")
      )
    } else arguments
}
