package io.sparkpgoutput.optimizer

import org.apache.spark.sql.catalyst.plans.logical._

/** Operators that hand on columns of their input as they are, whatever their number and type. */
object PassingOperators {

  /**
   * Those of which it is known. Not a union, whose inputs must be alike, nor what writes; and not a
   * join of streams, which keeps its input in a state that has to stay as it is.
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
