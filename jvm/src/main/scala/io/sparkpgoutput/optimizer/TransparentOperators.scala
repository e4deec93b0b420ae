package io.sparkpgoutput.optimizer

import org.apache.spark.sql.catalyst.plans.logical._

/**
 * The operators that hand on the columns of their input unchanged, for any number and any types of
 * columns.
 */
object TransparentOperators {

  /**
   * Returns whether an operator hands on its columns. A union does not, because its inputs must
   * have the same types. A join of streams does not, because it keeps its input in a state that
   * must not change. Operators that write do not either.
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
