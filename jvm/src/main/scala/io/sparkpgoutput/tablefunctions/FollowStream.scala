package io.sparkpgoutput.tablefunctions

import org.apache.spark.sql.catalyst.analysis.MultiInstanceRelation
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.types.StructType

import io.sparkpgoutput.changes.{ChangeFormat, ChangeSchema}

/**
 * An operator that follows streams of messages: what table changes and open transactions have in
 * common. Its children are the messages and, where there are, earlier ones; their columns are
 * position, message and, where there is, source.
 */
sealed abstract class FollowStream extends LogicalPlan with MultiInstanceRelation {
  private[tablefunctions] def options: ChangesOptions

  /** The columns of rows but for the source's. */
  def columns: Seq[Attribute]

  /** Of the column `_source`; None where it is not asked for. */
  def sourceId: Option[ExprId]

  /** The column `_source`, which is of the source's own type. */
  final protected def source: Option[Attribute] = sourceId.map { id =>
    AttributeReference(ChangeSchema.Source, children.head.output(FollowStream.Source).dataType)(id)
  }

  override def producedAttributes: AttributeSet = AttributeSet(output)
  override protected def stringArgs: Iterator[Any] = Iterator(output)
  @transient override lazy val references: AttributeSet = AttributeSet(children.flatMap(_.output))
}

/**
 * The committed changes of tables, of streams in batch.
 *
 * @param format
 *   of rows with all columns
 * @param columns
 *   those that are wanted
 */
case class TableChanges(
    children: Seq[LogicalPlan],
    private[tablefunctions] val options: ChangesOptions,
    private[tablefunctions] val format: ChangeFormat,
    columns: Seq[Attribute],
    sourceId: Option[ExprId]
) extends FollowStream {
  override def output: Seq[Attribute] = columns ++ source

  /** The format of the rows that are wanted. */
  private[tablefunctions] def requiredFormat: ChangeFormat = {
    val wanted = columns.map(_.name).toSet
    def required(schema: StructType) =
      schema.indices.filter(index => wanted(schema(index).name))
    format.copy(
      requiredColumns = required(format.table.columns),
      requiredFields = required(ChangeSchema.schema)
    )
  }

  override def newInstance(): LogicalPlan =
    copy(
      columns = columns.map(_.newInstance()),
      sourceId = sourceId.map(_ => NamedExpression.newExprId)
    )

  override protected def withNewChildrenInternal(children: IndexedSeq[LogicalPlan]): LogicalPlan =
    copy(children = children)
}

/** The transactions that are open at the end of streams. */
case class OpenTransactions(
    children: Seq[LogicalPlan],
    private[tablefunctions] val options: ChangesOptions,
    columns: Seq[Attribute],
    sourceId: Option[ExprId]
) extends FollowStream {
  override def output: Seq[Attribute] = source.toSeq ++ columns

  override def newInstance(): LogicalPlan =
    copy(
      columns = columns.map(_.newInstance()),
      sourceId = sourceId.map(_ => NamedExpression.newExprId)
    )

  override protected def withNewChildrenInternal(children: IndexedSeq[LogicalPlan]): LogicalPlan =
    copy(children = children)
}

object FollowStream {

  /** The columns of the operator's children. */
  final val Position = 0
  final val Message = 1
  final val Source = 2
}
