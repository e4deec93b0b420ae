package io.sparkpgoutput.changes.sql

import org.apache.spark.sql.catalyst.analysis.MultiInstanceRelation
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.types.{DataType, NullType}

import io.sparkpgoutput.changes.{ChangeFormat, ChangeSchema}

/** The columns of messages whose streams are followed; the last one not always. */
object MessageColumns {
  final val Position = 0
  final val Message = 1
  final val Source = 2
  val names: Seq[String] = Seq("position", "message", "source")

  /** The type of the source's column; any as long as it is not resolved, which is told later. */
  def sourceType(messages: LogicalPlan): DataType =
    if (messages.resolved) messages.output(Source).dataType else NullType
}

/**
 * The committed changes of tables, in batch.
 *
 * @param children
 *   the messages and, where there are, earlier ones, with the columns of [[MessageColumns]]
 */
case class TableChanges(
    children: Seq[LogicalPlan],
    val options: ChangesOptions,
    val format: ChangeFormat,
    columns: Seq[Attribute],
    sourceId: Option[ExprId]
) extends ChangesOperator {
  override protected def sourceType: DataType =
    MessageColumns.sourceType(children.head)

  override protected def copied(
      format: ChangeFormat,
      columns: Seq[Attribute],
      sourceId: Option[ExprId]
  ): ChangesOperator = copy(format = format, columns = columns, sourceId = sourceId)

  override protected def withNewChildrenInternal(children: IndexedSeq[LogicalPlan]): LogicalPlan =
    copy(children = children)
}

/** The transactions that are open at the end of streams, in batch. */
case class OpenTransactions(
    children: Seq[LogicalPlan],
    val options: ChangesOptions,
    columns: Seq[Attribute],
    sourceId: Option[ExprId]
) extends LogicalPlan
    with MultiInstanceRelation {
  override def output: Seq[Attribute] = sourceId.map { id =>
    AttributeReference(ChangeSchema.Source, MessageColumns.sourceType(children.head))(id)
  }.toSeq ++ columns

  override def producedAttributes: AttributeSet = AttributeSet(output)
  @transient override lazy val references: AttributeSet = AttributeSet(children.flatMap(_.output))
  override protected def stringArgs: Iterator[Any] = Iterator(output)

  override def newInstance(): LogicalPlan = copy(
    columns = columns.map(_.newInstance()),
    sourceId = sourceId.map(_ => NamedExpression.newExprId)
  )

  override protected def withNewChildrenInternal(children: IndexedSeq[LogicalPlan]): LogicalPlan =
    copy(children = children)
}
