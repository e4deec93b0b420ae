package io.sparkpgoutput.changes.sql

import org.apache.spark.sql.catalyst.analysis.MultiInstanceRelation
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.types.{DataType, NullType}

import io.sparkpgoutput.changes.MessageColumns
import io.sparkpgoutput.changes.rows.ChangeSchema

/** A logical operator that turns messages into rows with columns of its own. */
trait MessagesOperator extends LogicalPlan with MultiInstanceRelation {
  def options: ChangesOptions

  /** The columns of the rows without `_source`. */
  def columns: Seq[Attribute]

  /** The id of the column `_source`, or None if the rows do not have it. */
  def sourceId: Option[ExprId]

  protected def withOutput(columns: Seq[Attribute], sourceId: Option[ExprId]): LogicalPlan

  /** The place of the source among the columns of the first child. */
  protected def sourceOrdinal: Int = MessageColumns.Source

  /** A child that is not resolved has no type. The analyzer reports it later. */
  private def sourceType: DataType =
    if (children.head.resolved) children.head.output(sourceOrdinal).dataType else NullType

  final protected def source: Option[Attribute] =
    sourceId.map(AttributeReference(ChangeSchema.Source, sourceType)(_))

  override def output: Seq[Attribute] = columns ++ source
  override protected def stringArgs: Iterator[Any] = Iterator(output) ++ options.shown
  final override def producedAttributes: AttributeSet = AttributeSet(output)

  /** The operator reads every column of its children, so Spark must not prune any. */
  @transient final override lazy val references: AttributeSet =
    AttributeSet(children.flatMap(_.output))

  final override def newInstance(): LogicalPlan =
    withOutput(columns.map(_.newInstance()), sourceId.map(_ => NamedExpression.newExprId))
}
