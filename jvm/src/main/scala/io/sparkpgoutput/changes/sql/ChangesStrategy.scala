package io.sparkpgoutput.changes.sql

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}

/** Plans the operators of the table functions. */
object ChangesStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case changes @ TableChanges(children, options, _, _, _, isStream) =>
      val format = changes.requiredFormat
      val inputs = children.map(planLater)
      Seq(
        if (isStream) StreamedChangesExec(inputs.head, changes.output, options, format)
        else TableChangesExec(inputs, changes.output, options, format)
      )
    case open @ OpenTransactions(children, options, _, _) =>
      Seq(OpenTransactionsExec(children.map(planLater), open.output, options))
    case OrderedMessages(messages) => Seq(OrderedMessagesExec(planLater(messages)))
    case _                         => Nil
  }
}
