package io.sparkpgoutput.tablefunctions

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, NamedExpression}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}

/** Plans the operators that follow streams. */
object FollowStreamStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case changes @ TableChanges(children, options, _, _, _) =>
      val format = changes.requiredFormat
      Seq(
        TableChangesExec(children.map(planned), changes.output, options, format, children.head)
      )
    case open @ OpenTransactions(children, options, _, _) =>
      Seq(OpenTransactionsExec(children.map(planned), open.output, options, children.head))
    case streamed: StreamedChanges =>
      Seq(StreamedChangesExec(planLater(streamed.child), streamed.output, streamed.requiredFormat))
    case OrderedMessages(messages) => Seq(OrderedMessagesExec(planLater(messages)))
    case _                         => Nil
  }

  /** Without the renaming of columns, for which each row would be written once more. */
  private def planned(messages: LogicalPlan): SparkPlan = planLater(messages match {
    case Project(columns, child) if columns.forall(asIs(_).isDefined) =>
      Project(columns.flatMap(asIs), child)
    case other => other
  })

  private def asIs(column: NamedExpression): Option[Attribute] = column match {
    case Alias(attribute: Attribute, _) => Some(attribute)
    case attribute: Attribute           => Some(attribute)
    case _                              => None
  }
}
