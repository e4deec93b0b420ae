package io.sparkpgoutput.sql

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions.{ExprUtils, Expression}
import org.apache.spark.sql.catalyst.parser.ParseException
import org.apache.spark.sql.types.StructType

import io.sparkpgoutput.errors.ErrorText

/** A schema that a user gives as DDL or JSON. */
object SchemaArgument {
  private val SyntaxError = "PARSE_SYNTAX_ERROR"

  /**
   * Parses a constant schema. Spark's text of a syntax error does not say where the schema stands in
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
