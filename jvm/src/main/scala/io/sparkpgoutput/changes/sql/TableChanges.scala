package io.sparkpgoutput.changes.sql

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

import io.sparkpgoutput.changes.rows.{ChangeFormat, ChangeSchema}
import io.sparkpgoutput.changes.streaming.CommittedMessage

/**
 * Returns the rows of committed changes.
 *
 * @param children
 *   the messages and, with the option `relations`, the earlier messages; both have the columns of
 *   [[io.sparkpgoutput.changes.MessageColumns]]. In a stream, the child has [[CommittedMessage]]s.
 * @param format the format of rows with all columns
 */
case class TableChanges(
    children: Seq[LogicalPlan],
    options: ChangesOptions,
    format: ChangeFormat,
    columns: Seq[Attribute],
    sourceId: Option[ExprId],
    isStream: Boolean
) extends MessagesOperator {
  override protected def sourceOrdinal: Int =
    if (isStream) CommittedMessage.SOURCE else super.sourceOrdinal

  override protected def stringArgs: Iterator[Any] = super.stringArgs ++ format.filter.shown

  override protected def withOutput(
      columns: Seq[Attribute],
      sourceId: Option[ExprId]
  ): TableChanges = copy(columns = columns, sourceId = sourceId)

  override protected def withNewChildrenInternal(children: IndexedSeq[LogicalPlan]): LogicalPlan =
    copy(children = children)

  /** Keeps only the columns that are used. */
  def withColumns(used: AttributeSet): TableChanges =
    withOutput(columns.filter(used.contains), source.filter(used.contains).map(_.exprId))

  /** Keeps only the rows with these values of `_table` and `_change_type`; None keeps all. */
  def withValues(tables: Option[Set[String]], changeTypes: Option[Set[String]]): TableChanges = {
    val filter = format.filter.copy(tableNames = tables, changeTypes = changeTypes)
    copy(format = format.copy(filter = filter))
  }

  def table: Option[Attribute] = column(ChangeSchema.TABLE)
  def changeType: Option[Attribute] = column(ChangeSchema.CHANGE_TYPE)

  private def column(field: Int) = columns.find(_.name == ChangeSchema.schema(field).name)

  /** The format of rows with only the columns that are wanted. */
  def requiredFormat: ChangeFormat = format.select(columns.map(_.name).toSet)
}
