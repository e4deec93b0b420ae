package io.sparkpgoutput.changes.sql

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}

/** Plans the operators of the table functions. */
object ChangesStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case changes @ TableChanges(children, options, _, _, _) =>
      val format = changes.requiredFormat
      Seq(TableChangesExec(children.map(planLater), changes.output, options, format))
    case open @ OpenTransactions(children, options, _, _) =>
      Seq(OpenTransactionsExec(children.map(planLater), open.output, options))
    case changes @ StreamedChanges(child, options, _, _, _) =>
      val format = changes.requiredFormat
      Seq(StreamedChangesExec(planLater(child), changes.output, options, format))
    case OrderedMessages(messages) => Seq(OrderedMessagesExec(planLater(messages)))
    case _                         => Nil
  }
}
