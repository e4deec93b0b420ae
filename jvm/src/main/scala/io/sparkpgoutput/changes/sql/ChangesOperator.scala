package io.sparkpgoutput.changes.sql

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types.StructType

import io.sparkpgoutput.changes.rows.{ChangeFormat, ChangeSchema}

/** A logical operator that returns the rows of table changes. */
trait ChangesOperator extends MessagesOperator {

  /** The format of rows with all columns. */
  def format: ChangeFormat

  override protected def stringArgs: Iterator[Any] = super.stringArgs ++ format.filter.shown

  protected def withFormat(format: ChangeFormat): ChangesOperator
  override protected def withOutput(
      columns: Seq[Attribute],
      sourceId: Option[ExprId]
  ): ChangesOperator

  /** Keeps only the columns that are used. */
  final def withColumns(used: AttributeSet): ChangesOperator =
    withOutput(columns.filter(used.contains), source.filter(used.contains).map(_.exprId))

  /** Keeps only the rows with these values of `_table` and `_change_type`; None keeps all. */
  final def withValues(
      tables: Option[Set[String]],
      changeTypes: Option[Set[String]]
  ): ChangesOperator =
    withFormat(
      format.copy(filter = format.filter.copy(tableNames = tables, changeTypes = changeTypes))
    )

  final def table: Option[Attribute] = column(ChangeSchema.TABLE)
  final def changeType: Option[Attribute] = column(ChangeSchema.CHANGE_TYPE)

  private def column(field: Int) = columns.find(_.name == ChangeSchema.schema(field).name)

  /** The format of rows with only the columns that are wanted. */
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
