package io.sparkpgoutput.tablefunctions

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}

/** Plans the operators that follow streams. */
object FollowStreamStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case changes: TableChanges =>
      val children = changes.children.map(planLater)
      Seq(TableChangesExec(children, changes.output, changes.options, changes.requiredFormat))
    case open: OpenTransactions =>
      Seq(OpenTransactionsExec(open.children.map(planLater), open.output, open.options))
    case _ => Nil
  }
}
