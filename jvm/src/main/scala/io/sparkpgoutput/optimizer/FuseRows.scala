package io.sparkpgoutput.optimizer

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.{Expression, GetStructField}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

import io.sparkpgoutput.decode.sql.DecodeFunction
import io.sparkpgoutput.rows.sql.{RowFunction, RowOfMessage}

/**
 * Reads typed rows straight from the messages where nothing else of the decode is used: then
 * the decode has no row. Beside other uses `PruneDecodes` lets it hand on the tuple's bytes.
 */
object FuseRows {
  def apply(plan: LogicalPlan): LogicalPlan = {
    val rows = rowsOfDecodes(plan)
    plan.transformAllExpressions { case row: RowFunction =>
      decodeOf(row) match {
        case Some((decode, field)) if rows(decode.canonicalized).size == 1 =>
          RowOfMessage.of(row, decode, field)
        case _ => row
      }
    }
  }

  /** By decode, the rows that are made of it; null stands for another use. */
  private def rowsOfDecodes(plan: LogicalPlan): Map[Expression, Set[Expression]] = {
    val rows = mutable.Map.empty[Expression, Set[Expression]].withDefaultValue(Set.empty)
    def use(decode: DecodeFunction, row: Expression): Unit = {
      rows(decode.canonicalized) += row
      decode.children.foreach(add)
    }
    def add(expression: Expression): Unit = expression match {
      case decode: DecodeFunction => use(decode, null)
      case row: RowFunction =>
        decodeOf(row) match {
          case Some((decode, _)) => use(decode, row.canonicalized)
          case None              => row.children.foreach(add)
        }
      case other => other.children.foreach(add)
    }
    plan.foreach(_.expressions.foreach(add))
    rows.toMap
  }

  /** The decode and its tuple that a row is made of, where all messages have the same types. */
  private def decodeOf(row: RowFunction): Option[(DecodeFunction, Int)] = row.tuple match {
    case GetStructField(decode: DecodeFunction, field, _)
        if decode.isWhole && decode.isUtf8 && decode.deterministic && row.typeIds.foldable =>
      Some((decode, field))
    case _ => None
  }
}
