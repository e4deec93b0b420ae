package io.sparkpgoutput.changes.sql

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

import io.sparkpgoutput.changes.rows.ChangeFormat
import io.sparkpgoutput.changes.streaming.CommittedMessage

/** Returns the rows of the changes in [[CommittedMessage]]s. */
case class StreamedChanges(
    child: LogicalPlan,
    val options: ChangesOptions,
    val format: ChangeFormat,
    columns: Seq[Attribute],
    sourceId: Option[ExprId]
) extends ChangesOperator {
  override def children: Seq[LogicalPlan] = Seq(child)
  override protected def sourceOrdinal: Int = CommittedMessage.SOURCE
  override protected def withFormat(format: ChangeFormat): ChangesOperator = copy(format = format)

  override protected def withOutput(
      columns: Seq[Attribute],
      sourceId: Option[ExprId]
  ): ChangesOperator = copy(columns = columns, sourceId = sourceId)

  override protected def withNewChildrenInternal(children: IndexedSeq[LogicalPlan]): LogicalPlan =
    copy(child = children.head)
}
