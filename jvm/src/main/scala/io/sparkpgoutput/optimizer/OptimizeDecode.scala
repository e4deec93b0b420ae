package io.sparkpgoutput.optimizer

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.optimizer.{ColumnPruning, RemoveNoopOperators}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule

import io.sparkpgoutput.decode.sql.DecodeFunction
import io.sparkpgoutput.rows.sql.TypedRow

/**
 * Reads typed rows straight from messages, makes decodes of the same message one, narrows each to
 * the fields that the query uses, and lets it leave out the messages that the filter above it
 * drops. What a query returns stays the same, and so does which messages are malformed.
 *
 * For after Spark's own rules, which move filters and projections to where they stay.
 * `spark.sql.optimizer.excludedRules` with this object's name turns it off.
 */
object OptimizeDecode extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!decodes(plan)) plan
    else {
      val fused = FuseRows(plan)
      val shared = ShareDecodes(fused)
      val tidied = if (shared eq fused) fused else RemoveNoopOperators(ColumnPruning(shared))
      PruneDecodes(FilterDecodes(tidied))
    }

  private def isOurs(expression: Expression) = expression match {
    case _: DecodeFunction | _: TypedRow => true
    case _                               => false
  }

  private def decodes(plan: LogicalPlan): Boolean =
    plan.exists(_.expressions.exists(_.exists(isOurs)))
}
