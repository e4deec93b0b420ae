package io.sparkpgoutput.changes.sql

import org.apache.spark.sql.catalyst.analysis.MultiInstanceRelation
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.types.{DataType, StructType}

import io.sparkpgoutput.changes.{ChangeFormat, ChangeSchema}

/** An operator that gives the rows of table changes. */
trait ChangesOperator extends LogicalPlan with MultiInstanceRelation {

  /** Of rows with all columns. */
  def format: ChangeFormat

  /** The columns that are wanted, but for the source's. */
  def columns: Seq[Attribute]

  /** Of the column `_source`; None where it is not wanted. */
  def sourceId: Option[ExprId]

  /** The type of the source's column. */
  protected def sourceType: DataType

  protected def copied(
      format: ChangeFormat,
      columns: Seq[Attribute],
      sourceId: Option[ExprId]
  ): ChangesOperator

  final override def output: Seq[Attribute] =
    columns ++ sourceId.map(AttributeReference(ChangeSchema.Source, sourceType)(_))
  final override def producedAttributes: AttributeSet = AttributeSet(output)
  @transient final override lazy val references: AttributeSet =
    AttributeSet(children.flatMap(_.output))
  final override protected def stringArgs: Iterator[Any] =
    Iterator(output) ++ format.filter.shown

  final override def newInstance(): LogicalPlan =
    copied(format, columns.map(_.newInstance()), sourceId.map(_ => NamedExpression.newExprId))

  /** The same with only those of its columns that are used. */
  final def withColumns(used: AttributeSet): ChangesOperator = {
    val wanted = output.filter(used.contains)
    copied(format, columns.filter(used.contains), sourceId.filter(wanted.map(_.exprId).contains))
  }

  /** The same, without rows that have other values in these columns; None for any. */
  final def withValues(
      tables: Option[Set[String]],
      changeTypes: Option[Set[String]]
  ): ChangesOperator = {
    val filter = format.filter.copy(tableNames = tables, changeTypes = changeTypes)
    copied(format.copy(filter = filter), columns, sourceId)
  }

  final def table: Option[Attribute] = column(ChangeSchema.TABLE)
  final def changeType: Option[Attribute] = column(ChangeSchema.CHANGE_TYPE)

  private def column(field: Int) = columns.find(_.name == ChangeSchema.schema(field).name)

  /** The format of the rows that are wanted. */
  final def requiredFormat: ChangeFormat = {
    val wanted = columns.map(_.name).toSet
    def required(schema: StructType) =
      schema.indices.filter(index => wanted(schema(index).name))
    format.copy(
      requiredColumns = required(format.table.columns),
      requiredFields = required(ChangeSchema.schema)
    )
  }
}
