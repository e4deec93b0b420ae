package io.sparkpgoutput.optimizer

import org.apache.spark.sql.catalyst.expressions.ExprId
import org.apache.spark.sql.types.StructType

/**
 * A column that holds a row, or a struct in it.
 *
 * @param first
 *   the column that was first to hold the row
 * @param path
 *   the names of the members that lead to the struct
 * @param typed
 *   of a typed row of a tuple, of which only whole columns can be left out, the type
 */
final case class HeldRow(
    first: ExprId,
    path: Seq[String] = Nil,
    typed: Option[StructType] = None
) {
  def member(name: String): HeldRow = copy(path = path :+ name)

  /** What is used of the row, where this part is used of what the column holds. */
  def ofRow(part: RequiredFields): RequiredFields =
    path.foldRight(part)(RequiredFields.member(_, _))

  /** What is to be left of what the column holds, where this part of the row is used. */
  def left(used: RequiredFields): RequiredFields =
    typed.fold(path.foldLeft(used)(_.of(_)))(used.ofTypedRow)
}
