package io.sparkpgoutput.changes.sql

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

import io.sparkpgoutput.changes.rows.ChangeFormat

/**
 * Returns the committed changes in a batch of messages.
 *
 * @param children
 *   the messages and, with the option `relations`, the earlier messages; both with the columns of
 *   [[io.sparkpgoutput.changes.MessageColumns]]
 */
case class TableChanges(
    children: Seq[LogicalPlan],
    val options: ChangesOptions,
    val format: ChangeFormat,
    columns: Seq[Attribute],
    sourceId: Option[ExprId]
) extends ChangesOperator {
  override protected def withFormat(format: ChangeFormat): ChangesOperator = copy(format = format)

  override protected def withOutput(
      columns: Seq[Attribute],
      sourceId: Option[ExprId]
  ): ChangesOperator = copy(columns = columns, sourceId = sourceId)

  override protected def withNewChildrenInternal(children: IndexedSeq[LogicalPlan]): LogicalPlan =
    copy(children = children)
}
