package io.sparkpgoutput.changes.sql

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

/** Returns the transactions that are open at the end of a batch of messages. */
case class OpenTransactions(
    children: Seq[LogicalPlan],
    val options: ChangesOptions,
    columns: Seq[Attribute],
    sourceId: Option[ExprId]
) extends MessagesOperator {
  override def output: Seq[Attribute] = source.toSeq ++ columns

  override protected def withOutput(
      columns: Seq[Attribute],
      sourceId: Option[ExprId]
  ): LogicalPlan = copy(columns = columns, sourceId = sourceId)

  override protected def withNewChildrenInternal(children: IndexedSeq[LogicalPlan]): LogicalPlan =
    copy(children = children)
}
