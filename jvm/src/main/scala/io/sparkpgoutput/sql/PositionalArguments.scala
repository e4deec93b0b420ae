package io.sparkpgoutput.sql

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions.{Expression, NamedArgumentExpression}

/** The functions take their arguments by position only, as most of Spark's functions do. */
object PositionalArguments {

  /**
   * Refuses arguments that are given by name. Spark does not check that, and fails later with an
   * internal error.
   */
  def check(function: String, arguments: Seq[Expression]): Unit =
    if (arguments.exists(_.isInstanceOf[NamedArgumentExpression])) {
      throw new AnalysisException(
        "NAMED_PARAMETERS_NOT_SUPPORTED",
        Map("functionName" -> s"`$function`")
      )
    }
}
