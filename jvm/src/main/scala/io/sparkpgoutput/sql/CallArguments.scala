package io.sparkpgoutput.sql

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.parser.ParseException
import org.apache.spark.sql.catalyst.types.DataTypeUtils.equalsIgnoreNullability
import org.apache.spark.sql.catalyst.util.{ArrayData, MapData}
import org.apache.spark.sql.pgoutput.CallErrors
import org.apache.spark.sql.types.{DataType, MapType, NullType, StringType, StructType}
import org.apache.spark.unsafe.types.UTF8String

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

  /** The argument at a position; a NULL without a type has this type. */
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

  /**
   * Refuses arguments that are given by name: the functions take them by position only, as most of
   * Spark's do. Spark does not check that, and fails later with an internal error.
   */
  def checkPositional(): Unit =
    if (arguments.exists(_.isInstanceOf[NamedArgumentExpression]))
      throw CallErrors.namedArguments(function)

  /** The error that Spark gives if a function refuses its arguments. */
  def refused(problem: String): AnalysisException = new AnalysisException(
    "DATATYPE_MISMATCH.TYPE_CHECK_FAILURE_WITH_HINT",
    Map(
      "sqlExpr" -> s"\"${ErrorText.escape(sql)}\"",
      "msg" -> ErrorText.escape(problem.stripSuffix(".")), // the text of the condition adds one
      "hint" -> ""
    )
  )

  private def sql = s"$function(${arguments.map(_.sql).mkString(", ")})"
}

/** Arguments whose values are the same for all rows, and are needed during the analysis. */
object ConstantArgument {

  /**
   * The argument as an expression that can be evaluated. The functions in it that the optimizer
   * replaces, among them those of this library, cannot.
   */
  def evaluable(argument: Expression): Expression =
    argument.transformUp { case call: RuntimeReplaceable => call.replacement }

  /** The value of an argument; None if it is not the same for all rows. */
  def value(argument: Expression): Option[Any] = {
    val constant = evaluable(argument)
    Option.when(constant.foldable)(constant.eval())
  }

  /**
   * The entries of a constant map of options, in order; none for NULL. Values of other types, such
   * as a number, are taken as text. None if the argument is not a constant map.
   */
  def entries(options: Expression): Option[Seq[(String, String)]] = {
    val texts = Cast(options, MapType(StringType, StringType), Some("UTC"))
    Option.when(texts.resolved)(texts).flatMap(value).map {
      case map: MapData => strings(map.keyArray()).zip(strings(map.valueArray()))
      case _            => Nil
    }
  }

  private def strings(array: ArrayData): Seq[String] =
    array.toSeq[UTF8String](StringType).map(text => if (text == null) null else text.toString)
}

/** A schema that a user gives as DDL or JSON. */
object SchemaArgument {
  private val SyntaxError = "PARSE_SYNTAX_ERROR"

  /**
   * Parses a constant schema. Spark's text of a syntax error does not say where the schema is in
   * the query, so this adds it.
   *
   * @param name names the argument or the option, for the error
   */
  def parse(schema: Expression, name: String): StructType =
    try ExprUtils.evalSchemaExpr(ConstantArgument.evaluable(schema))
    catch {
      case error: ParseException if error.getCondition == SyntaxError =>
        val parameters = error.getMessageParameters.asScala.toMap
        val text = ErrorText.escape(ConstantArgument.evaluable(schema).eval().toString)
        val hint = s"${parameters.getOrElse("hint", "")} in $name, which is '$text'"
        throw new AnalysisException(SyntaxError, parameters + ("hint" -> hint))
    }
}
