package io.sparkpgoutput.optimizer

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}

import io.sparkpgoutput.optimizer.RequiredFields.{Elements, Presence, Whole, member}
import io.sparkpgoutput.rows.sql.{RowFunction, TypedRow}

/**
 * Finds out which part a plan uses of each of these columns, some of which are others' copies.
 *
 * @param ofTuple
 *   what typed rows use of a tuple
 */
final class FieldUses(
    columns: Map[ExprId, HeldRow],
    val ofTuple: RequiredFields
) {
  private val parts =
    mutable.Map.from[ExprId, RequiredFields](columns.valuesIterator.map(_.first -> Presence))

  /** Of typed rows that no column holds: the same row is converted once for all that use it. */
  private val rows = mutable.Map.empty[Expression, RequiredFields].withDefaultValue(Presence)

  lazy val required: Map[ExprId, RequiredFields] = columns.map { case (id, held) =>
    id -> held.left(parts(held.first))
  }

  def ofRow(row: TypedRow): RequiredFields = rows(row.canonicalized)

  def addPlan(plan: LogicalPlan): Unit = {
    addWhole(plan.output)
    plan.foreach { operator =>
      if (!PassingOperators.contains(operator)) operator.children.foreach(c => addWhole(c.output))
      operator match {
        case Project(list, _) => list.filterNot(isCopy).foreach(addProjected)
        case other            => other.expressions.foreach(add(_, Whole))
      }
    }
  }

  private def isCopy(expression: NamedExpression): Boolean = expression match {
    case _: Attribute | Alias(_: Attribute, _) => true
    case _                                     => false
  }

  /** What a column holds is used where the column is. */
  private def addProjected(expression: NamedExpression): Unit = expression match {
    case Alias(row: TypedRow, _) if columns.contains(expression.exprId) => addArguments(row)
    case Alias(_: GetStructField, _) if columns.contains(expression.exprId) =>
      add(expression.toAttribute, Presence)
    case other => add(other, Whole)
  }

  private def addArguments(row: TypedRow): Unit = row match {
    case row: RowFunction =>
      add(row.tuple, ofTuple)
      row.children.tail.foreach(add(_, Whole))
    case other => other.children.foreach(add(_, Whole))
  }

  private def addWhole(output: Seq[Attribute]): Unit = output.foreach(add(_, Whole))

  private def add(expression: Expression, part: RequiredFields): Unit = expression match {
    case column: Attribute =>
      columns.get(column.exprId).foreach { held =>
        parts(held.first) = parts(held.first).and(held.ofRow(part))
      }
    case row: TypedRow =>
      rows(row.canonicalized) = rows(row.canonicalized).and(part)
      addArguments(row)
    case get: GetStructField =>
      add(get.child, member(get.childSchema(get.ordinal).name, part))
    case get: GetArrayStructFields     => add(get.child, member(get.field.name, part))
    case TextElement(texts, position)  => add(texts, Elements(Set(position)))
    case GetArrayItem(child, index, _) => add(child, part.ofElement(child)); add(index, Whole)
    case _: IsNull | _: IsNotNull      => expression.children.foreach(add(_, Presence))
    case subquery: PlanExpression[_]   => subquery.references.foreach(add(_, Whole))
    case other                         => other.children.foreach(add(_, Whole))
  }
}
