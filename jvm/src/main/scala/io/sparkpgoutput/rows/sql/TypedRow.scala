package io.sparkpgoutput.rows.sql

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.types.{DataType, StructType}

import io.sparkpgoutput.rows.RowSchema

/** An expression that gives a typed row of a tuple, with all columns or with those that are used. */
trait TypedRow extends Expression {
  def rowSchema: RowSchema

  /** The row with the columns at these positions of the schema only. */
  def withColumns(positions: Seq[Int]): TypedRow

  final def rowType: StructType = rowSchema.rowType
  final override def dataType: DataType = rowType

  final override def prettyName: String =
    if (rowSchema.failFast) "pgoutput_row" else "try_pgoutput_row"

  final protected def columnNames: String = rowType.fieldNames.mkString("[", ", ", "]")
}
