package io.sparkpgoutput.sql

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions.{Expression, Literal, NamedArgumentExpression}
import org.apache.spark.sql.catalyst.types.DataTypeUtils.equalsIgnoreNullability
import org.apache.spark.sql.types.{DataType, MapType, NullType, StructType}

import io.sparkpgoutput.errors.ErrorText
import io.sparkpgoutput.options.OptionList

/**
 * The arguments of a call of a function.
 *
 * @param arguments the arguments, NULL for each optional one that was left out
 */
final case class CallArguments(function: String, arguments: Seq[Expression]) {

  /** The options in the argument at a position. */
  def options[T](position: Int, list: OptionList[T]): T = {
    val options = arguments(position)
    ConstantArgument.entries(options) match {
      case Some(entries) => list.parse(entries).fold(problem => throw refused(problem), identity)
      case None if options.dataType.isInstanceOf[MapType] =>
        throw refused("The options must be constant, and a map of strings to strings.")
      case None =>
        throw refused(
          s"The options must be a constant map of strings to strings, and not ${options.dataType.sql}."
        )
    }
  }

  /** The argument at a position; a NULL without a type is of this type. */
  def argument(position: Int, dataType: DataType): Expression =
    arguments(position) match {
      case untyped if untyped.dataType == NullType => Literal.create(null, dataType)
      case argument                                => argument
    }

  /** The first argument, which must be a struct of this type. An error calls the struct `what`. */
  def struct(wanted: StructType, what: String): Expression = {
    val found = argument(0, wanted)
    if (!equalsIgnoreNullability(found.dataType, wanted)) {
      throw refused(s"The first argument must be $what, and not ${found.dataType.sql}")
    }
    found
  }

  /** The error that says what is wrong with the arguments. */
  def refused(problem: String): AnalysisException = CallArguments.refused(sql, problem)

  private def sql = s"$function(${arguments.map(_.sql).mkString(", ")})"
}

object CallArguments {

  /**
   * Refuses arguments that are given by name: the functions take them by position only, as most of
   * Spark's do. Spark does not check that, and fails later with an internal error.
   */
  def checkPositional(function: String, arguments: Seq[Expression]): Unit =
    if (arguments.exists(_.isInstanceOf[NamedArgumentExpression])) {
      throw new AnalysisException(
        "NAMED_PARAMETERS_NOT_SUPPORTED",
        Map("functionName" -> s"`$function`")
      )
    }

  /** The error that Spark gives if a function refuses its arguments. */
  def refused(call: String, problem: String): AnalysisException = new AnalysisException(
    "DATATYPE_MISMATCH.TYPE_CHECK_FAILURE_WITH_HINT",
    Map(
      "sqlExpr" -> s"\"${ErrorText.escape(call)}\"",
      "msg" -> ErrorText.escape(problem.stripSuffix(".")), // the text of the condition adds one
      "hint" -> ""
    )
  )
}
