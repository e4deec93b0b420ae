package io.sparkpgoutput.rows.sql

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.types.StructType

/** An expression that gives a typed row of a tuple: all its columns, or those that are wanted. */
trait TypedRow extends Expression {

  /** The row with all its columns. */
  def wholeRow: StructType

  /** The same with the columns at these positions of the whole row only. */
  def withRequired(positions: Seq[Int]): TypedRow

  final def rowType: StructType = dataType.asInstanceOf[StructType]
}
