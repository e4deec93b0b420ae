package io.sparkpgoutput.optimizer

import org.apache.spark.sql.catalyst.optimizer.{ColumnPruning, RemoveNoopOperators}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule

import io.sparkpgoutput.decode.sql.DecodeMessage
import io.sparkpgoutput.rows.sql.TypedRow

/**
 * Reads typed rows straight from messages, decodes each message once, narrows decodes to the fields
 * that the query uses, and lets them drop the messages that the filter above drops. The values that a
 * query returns stay the same, and so do the messages that are malformed. Values in columns of typed
 * rows that the query does not use are not converted, so they cannot be errors.
 *
 * The rule runs after Spark's own rules, which have moved filters and projections to their places. To
 * turn it off, put this object's name in `spark.sql.optimizer.excludedRules`.
 */
object OptimizeDecode extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!decodes(plan)) plan
    else {
      val fused = FuseDecodeAndRow(plan)
      val shared = ShareDecodes(fused)
      val tidied = if (shared eq fused) fused else RemoveNoopOperators(ColumnPruning(shared))
      PruneDecodes(FilterDecodes(tidied))
    }

  private def decodes(plan: LogicalPlan): Boolean = plan.exists(_.expressions.exists(_.exists {
    case _: DecodeMessage | _: TypedRow => true
    case _                              => false
  }))
}
