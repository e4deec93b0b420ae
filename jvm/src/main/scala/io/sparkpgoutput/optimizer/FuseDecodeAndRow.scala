package io.sparkpgoutput.optimizer

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.{Expression, GetStructField}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

import io.sparkpgoutput.decode.sql.DecodeMessage
import io.sparkpgoutput.rows.sql.{DecodeTuple, ReadTuple}

/**
 * Makes one expression of a decode and the typed row of its tuple, if the query uses nothing else
 * of the decode. The decode then writes no row. If the query uses more, `PruneDecodes` lets the
 * decode hand on the cells of the tuple.
 */
object FuseDecodeAndRow {
  def apply(plan: LogicalPlan): LogicalPlan = {
    val rows = rowsOfDecodes(plan)
    plan.transformAllExpressions { case row: ReadTuple =>
      decodeOf(row) match {
        case Some((decode, field)) if rows(decode.canonicalized).size == 1 =>
          import decode.{data, inStream, options}
          DecodeTuple(data, inStream, options, field, row.constantTypeIds.get, row.rowSchema)
        case _ => row
      }
    }
  }

  /** The typed rows that are made of each decode. A null stands for another use of the decode. */
  private def rowsOfDecodes(plan: LogicalPlan): Map[Expression, Set[Expression]] = {
    val rows = mutable.Map.empty[Expression, Set[Expression]].withDefaultValue(Set.empty)
    def use(decode: DecodeMessage, row: Expression): Unit = {
      rows(decode.canonicalized) += row
      decode.children.foreach(add)
    }
    def add(expression: Expression): Unit = expression match {
      case decode: DecodeMessage => use(decode, null)
      case row: ReadTuple =>
        decodeOf(row) match {
          case Some((decode, _)) => use(decode, row.canonicalized)
          case None              => row.children.foreach(add)
        }
      case other => other.children.foreach(add)
    }
    plan.foreach(_.expressions.foreach(add))
    rows.toMap
  }

  /**
   * Returns the decode and the tuple that a row is made of, if the types are the same for all
   * messages.
   */
  private def decodeOf(row: ReadTuple): Option[(DecodeMessage, Int)] = row.tuple match {
    case GetStructField(decode: DecodeMessage, field, _)
        if decode.isWhole && decode.isUtf8 && decode.deterministic && row.typeIds.foldable =>
      Some((decode, field))
    case _ => None
  }
}
