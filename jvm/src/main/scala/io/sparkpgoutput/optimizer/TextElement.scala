package io.sparkpgoutput.optimizer

import org.apache.spark.sql.catalyst.expressions.{ElementAt, Expression, GetArrayItem, Literal}
import org.apache.spark.sql.types.{ArrayType, StringType}

/** One element, at a constant position, of an array of strings, such as `d.new.text[3]`. */
object TextElement {

  /** The array, which is its first child, and the position from 0. */
  def unapply(expression: Expression): Option[(Expression, Int)] = expression match {
    case GetArrayItem(array, Literal(position: Int, _), _) if position >= 0 && isTexts(array) =>
      Some((array, position))
    case ElementAt(array, Literal(number: Int, _), _, _) if number > 0 && isTexts(array) =>
      Some((array, number - 1))
    case _ => None
  }

  private def isTexts(array: Expression): Boolean = array.dataType match {
    case ArrayType(StringType, _) => true
    case _                        => false
  }
}
