package io.sparkpgoutput.optimizer

import org.apache.spark.sql.catalyst.expressions.ExprId

import io.sparkpgoutput.decode.FieldSelection
import io.sparkpgoutput.rows.RowSchema

/**
 * A column that holds a row, or a struct of a row.
 *
 * @param first the column that was first to hold the row
 * @param path the names of the members that lead to the struct
 * @param typed the schema of a typed row, None for the row of a decode
 */
final case class RowColumn(
    first: ExprId,
    path: Seq[String] = Nil,
    typed: Option[RowSchema] = None
) {
  def member(name: String): RowColumn = copy(path = path :+ name)

  /** Returns the used part of the row, for a used part of the column. */
  def ofRow(part: FieldSelection): FieldSelection = path.foldRight(part)(FieldSelection.member)

  /** Returns the used part of the column, for a used part of the row. */
  def ofColumn(used: FieldSelection): FieldSelection =
    typed.fold(path.foldLeft(used)(_.of(_)))(RowColumn.wholeColumns(used, _))
}

object RowColumn {

  /**
   * Widens a selection to whole columns, because a typed row cannot leave out a part of a column.
   */
  def wholeColumns(used: FieldSelection, row: RowSchema): FieldSelection =
    if (used.isAll(row.rowType)) FieldSelection.All
    else {
      val names = used.members(row.rowType).map { case (column, _) => column.name }
      FieldSelection.members(names: _*)
    }
}
