package io.sparkpgoutput.optimizer

import org.apache.spark.sql.catalyst.plans.logical._

/** The operators that hand on columns of their input unchanged, whatever their number and type. */
object TransparentOperators {

  /**
   * Whether an operator is known to do so. A union is not, because its inputs must have the same
   * types; nor is what writes, nor a join of streams, which keeps its input in a state that must not
   * change.
   */
  def contains(plan: LogicalPlan): Boolean = plan match {
    case _: Project | _: Filter | _: Aggregate | _: Sort | _: Window | _: Generate => true
    case _: GlobalLimit | _: LocalLimit | _: Offset | _: Tail | _: Sample          => true
    case _: Repartition | _: RepartitionByExpression | _: SubqueryAlias            => true
    case _: BatchEvalPython | _: ArrowEvalPython                                   => true
    case join: Join => !join.isStreaming
    case _          => false
  }
}
