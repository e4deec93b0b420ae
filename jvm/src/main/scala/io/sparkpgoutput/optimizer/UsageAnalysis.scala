package io.sparkpgoutput.optimizer

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}

import io.sparkpgoutput.decode.FieldSelection
import io.sparkpgoutput.decode.FieldSelection.{All, Elements, Presence, member}
import io.sparkpgoutput.rows.sql.{ReadTuple, TypedRow}

/**
 * Finds out which part a plan uses of each column that holds a row, and of each typed row.
 *
 * @param ofTuple the part that typed rows use of a tuple
 */
final class UsageAnalysis(columns: Map[ExprId, RowColumn], val ofTuple: FieldSelection) {
  private val parts =
    mutable.Map.from[ExprId, FieldSelection](columns.valuesIterator.map(_.first -> Presence))

  /** The parts of typed rows that no column holds. Spark converts the same row once for all uses. */
  private val rows = mutable.Map.empty[Expression, FieldSelection].withDefaultValue(Presence)

  lazy val selected: Map[ExprId, FieldSelection] = columns.map { case (id, column) =>
    id -> column.ofColumn(parts(column.first))
  }

  def ofRow(row: TypedRow): FieldSelection = rows(row.canonicalized)

  def addPlan(plan: LogicalPlan): Unit = {
    addAll(plan.output)
    plan.foreach { operator =>
      if (!TransparentOperators.contains(operator)) operator.children.foreach(c => addAll(c.output))
      operator match {
        case Project(list, _) => list.filterNot(isCopy).foreach(addProjected)
        case other            => other.expressions.foreach(add(_, All))
      }
    }
  }

  private def isCopy(expression: NamedExpression): Boolean = expression match {
    case _: Attribute | Alias(_: Attribute, _) => true
    case _                                     => false
  }

  /** A query uses the value of a column if it uses the column. */
  private def addProjected(expression: NamedExpression): Unit = expression match {
    case Alias(row: TypedRow, _) if columns.contains(expression.exprId) => addArguments(row)
    case Alias(_: GetStructField, _) if columns.contains(expression.exprId) =>
      add(expression.toAttribute, Presence)
    case other => add(other, All)
  }

  private def addArguments(row: TypedRow): Unit = row match {
    case row: ReadTuple =>
      add(row.tuple, ofTuple)
      add(row.typeIds, All)
    case other => other.children.foreach(add(_, All))
  }

  private def addAll(output: Seq[Attribute]): Unit = output.foreach(add(_, All))

  private def add(expression: Expression, part: FieldSelection): Unit = expression match {
    case column: Attribute =>
      columns.get(column.exprId).foreach { held =>
        parts(held.first) = parts(held.first).and(held.ofRow(part))
      }
    case row: TypedRow =>
      rows(row.canonicalized) = rows(row.canonicalized).and(part)
      addArguments(row)
    case get: GetStructField =>
      add(get.child, member(get.childSchema(get.ordinal).name, part))
    case get: GetArrayStructFields    => add(get.child, member(get.field.name, part))
    case TextElement(texts, position) => add(texts, Elements(Set(position)))
    case GetArrayItem(child, index, _) =>
      add(child, part.ofElement(child.dataType))
      add(index, All)
    // Users check every column with `pgoutput_row(…) IS NULL`; Spark infers only IS NOT NULL itself.
    case IsNull(row) if isTypedRow(row) => add(row, All)
    case _: IsNull | _: IsNotNull       => expression.children.foreach(add(_, Presence))
    case subquery: PlanExpression[_]    => subquery.references.foreach(add(_, All))
    case other                          => other.children.foreach(add(_, All))
  }

  private def isTypedRow(expression: Expression): Boolean = expression match {
    case column: Attribute => columns.get(column.exprId).exists(_.typed.isDefined)
    case other             => other.isInstanceOf[TypedRow]
  }
}
