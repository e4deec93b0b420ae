package io.sparkpgoutput.changes.sql

import org.apache.spark.sql.catalyst.analysis.MultiInstanceRelation
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.types.{DataType, NullType}

import io.sparkpgoutput.changes.rows.{ChangeFormat, ChangeSchema}

/**
 * Returns the rows of committed changes.
 *
 * @param children
 *   the messages and, with the option `relations`, the earlier messages; both have the columns of
 *   [[io.sparkpgoutput.changes.MessageColumns]]. In a stream, the child has
 *   [[io.sparkpgoutput.changes.streaming.CommittedMessage]]s.
 * @param format
 *   the format of the rows, without `_source`. It has the names of the columns, so that plans of different columns are
 *   not equal: Spark compares plans without the names of attributes, and makes one subquery of two whose plans are
 *   equal.
 */
case class TableChanges(
    children: Seq[LogicalPlan],
    options: ChangesOptions,
    format: ChangeFormat,
    columns: Seq[Attribute],
    sourceId: Option[ExprId],
    isStream: Boolean
) extends MessagesOperator {
  override protected def stringArgs: Iterator[Any] = super.stringArgs ++ format.filter.shown

  override def newInstance(): LogicalPlan = copy(columns = newColumns, sourceId = newSourceId)

  override protected def withNewChildrenInternal(children: IndexedSeq[LogicalPlan]): LogicalPlan =
    copy(children = MessagesOperator.withSameSources(children))

  /** Keeps only the columns that are used. */
  def withColumns(used: AttributeSet): TableChanges = {
    val kept = columns.filter(used.contains)
    copy(
      format = format.select(kept.map(_.name).toSet),
      columns = kept,
      sourceId = source.filter(used.contains).map(_.exprId)
    )
  }

  /** Keeps only the rows with these values of `_table` and `_change_type`; None keeps all. */
  def withValues(tables: Option[Set[String]], changeTypes: Option[Set[String]]): TableChanges = {
    val filter = format.filter.copy(tableNames = tables, changeTypes = changeTypes)
    copy(format = format.copy(filter = filter))
  }

  def table: Option[Attribute] = column(ChangeSchema.TABLE)
  def changeType: Option[Attribute] = column(ChangeSchema.CHANGE_TYPE)

  private def column(field: Int) = columns.find(_.name == ChangeSchema.schema(field).name)
}

/** Returns the transactions that are open at the end of a batch of messages. */
case class OpenTransactions(
    children: Seq[LogicalPlan],
    options: ChangesOptions,
    columns: Seq[Attribute],
    sourceId: Option[ExprId]
) extends MessagesOperator {
  override def output: Seq[Attribute] = source.toSeq ++ columns

  override def newInstance(): LogicalPlan = copy(columns = newColumns, sourceId = newSourceId)

  override protected def withNewChildrenInternal(children: IndexedSeq[LogicalPlan]): LogicalPlan =
    copy(children = MessagesOperator.withSameSources(children))
}

object MessagesOperator {

  /**
   * Casts the sources of the earlier messages to the type of the others. The sources are compared, and the
   * operator reads both with one type. The cast cannot give NULL, because NULL is a source too. Without a column of
   * sources, the last columns are the messages, which have one type.
   */
  def withSameSources(inputs: Seq[LogicalPlan]): Seq[LogicalPlan] = inputs match {
    case Seq(messages, earlier) if inputs.forall(_.resolved) =>
      val (wanted, found) = (messages.output.last, earlier.output.last)
      if (wanted.dataType == found.dataType) inputs
      else {
        val cast = Cast(found, wanted.dataType, ansiEnabled = true)
        Seq(messages, Project(earlier.output.init :+ Alias(cast, found.name)(), earlier))
      }
    case other => other
  }
}

/** A logical operator that turns messages into rows with columns of its own. */
trait MessagesOperator extends LogicalPlan with MultiInstanceRelation {
  def options: ChangesOptions

  /** The columns of the rows without `_source`. */
  def columns: Seq[Attribute]

  /** The id of the column `_source`, or None if the rows do not have it. */
  def sourceId: Option[ExprId]

  /** The source is the last column. A child that is not resolved has no type. The analyzer reports it later. */
  private def sourceType: DataType =
    if (children.head.resolved) children.head.output.last.dataType else NullType

  final protected def source: Option[Attribute] =
    sourceId.map(AttributeReference(ChangeSchema.Source, sourceType)(_))

  override def output: Seq[Attribute] = columns ++ source
  override protected def stringArgs: Iterator[Any] = Iterator(output) ++ options.shown
  final override def producedAttributes: AttributeSet = AttributeSet(output)

  /** The operator reads every column of its children, so Spark must not prune any. */
  @transient final override lazy val references: AttributeSet = inputSet

  final protected def newColumns: Seq[Attribute] = columns.map(_.newInstance())

  final protected def newSourceId: Option[ExprId] = sourceId.map(_ => NamedExpression.newExprId)
}
