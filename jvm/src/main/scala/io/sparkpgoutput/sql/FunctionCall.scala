package io.sparkpgoutput.sql

import org.apache.spark.sql.catalyst.expressions.{
  Expression,
  InheritAnalysisRules,
  RuntimeReplaceable
}

/**
 * A call of one of the functions, as the user wrote it: the analyzer shows it and names columns by
 * it. The optimizer puts `replacement` in its place, which has the arguments as plain values and
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
