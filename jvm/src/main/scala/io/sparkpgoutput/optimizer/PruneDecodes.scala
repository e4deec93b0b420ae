package io.sparkpgoutput.optimizer

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.types.{ArrayType, StructType}

import io.sparkpgoutput.expressions.{DecodeFunction, PrunedDecode}
import io.sparkpgoutput.optimizer.RequiredFields.{Presence, Whole, member}

/**
 * Narrows each decode to the fields that the query uses, and with it the columns that hold its row.
 *
 * Followed are columns that a projection makes of a decode, from there through operators that pass
 * them on. Where one gets anywhere else it stays whole.
 */
private[optimizer] object PruneDecodes {
  def apply(plan: LogicalPlan): LogicalPlan = {
    val uses = new FieldUses(columns(plan))
    uses.addPlan(plan)
    plan.transformUp { case operator => operator.mapExpressions(narrow(_, uses.required)) }
  }

  /** The columns that hold a decode's row, each with the column that was first to hold it. */
  private def columns(plan: LogicalPlan): Map[ExprId, ExprId] = {
    val first = mutable.Map.empty[ExprId, ExprId]
    plan.foreachUp {
      case Project(list, _) =>
        list.foreach {
          case alias @ Alias(_: DecodeFunction, _) => first(alias.exprId) = alias.exprId
          case alias @ Alias(column: Attribute, _) =>
            first.get(column.exprId).foreach(first(alias.exprId) = _)
          case _ =>
        }
      case _ =>
    }
    first.toMap
  }

  private def narrow(expression: Expression, required: Map[ExprId, RequiredFields]): Expression = {

    /** The expression, of whose value `part` is used. */
    def narrowed(expression: Expression, part: RequiredFields): Expression = expression match {
      case alias @ Alias(decode: DecodeFunction, _) if required.contains(alias.exprId) =>
        alias.withNewChildren(Seq(narrowed(decode, required(alias.exprId))))
      case decode: DecodeFunction =>
        val arguments = decode.mapChildren(narrowed(_, Whole)).asInstanceOf[DecodeFunction]
        val left = part.prune(decode.required).asInstanceOf[StructType]
        if (left == decode.required) arguments
        else PrunedDecode.of(arguments).copy(required = left)
      case column: AttributeReference if required.contains(column.exprId) =>
        column.withDataType(required(column.exprId).prune(column.dataType))
      case get @ GetStructField(child, _, name) =>
        val found = narrowed(child, member(get.childSchema(get.ordinal).name, part))
        val struct = found.dataType.asInstanceOf[StructType]
        GetStructField(found, struct.fieldIndex(get.childSchema(get.ordinal).name), name)
      case get: GetArrayStructFields =>
        val found = narrowed(get.child, member(get.field.name, part))
        val struct = found.dataType.asInstanceOf[ArrayType].elementType.asInstanceOf[StructType]
        val ordinal = struct.fieldIndex(get.field.name)
        GetArrayStructFields(found, struct(ordinal), ordinal, struct.length, get.containsNull)
      case get @ GetArrayItem(child, index, _) =>
        get.withNewChildren(Seq(narrowed(child, part), narrowed(index, Whole)))
      case _: IsNull | _: IsNotNull => expression.mapChildren(narrowed(_, Presence))
      case _: PlanExpression[_]     => expression // what it takes from this plan stays whole
      case other                    => other.mapChildren(narrowed(_, Whole))
    }
    narrowed(expression, Whole)
  }
}

/** Finds out which part a plan uses of each of these columns, some of which are others' copies. */
final private class FieldUses(columns: Map[ExprId, ExprId]) {
  private val parts =
    mutable.Map.from[ExprId, RequiredFields](columns.valuesIterator.map(_ -> Presence))

  def required: Map[ExprId, RequiredFields] = columns.map { case (id, first) => id -> parts(first) }

  def addPlan(plan: LogicalPlan): Unit = {
    addWhole(plan.output)
    plan.foreach { operator =>
      if (!PassingOperators.contains(operator)) operator.children.foreach(c => addWhole(c.output))
      operator match {
        case Project(list, _) => list.filterNot(isCopy).foreach(add(_, Whole))
        case other            => other.expressions.foreach(add(_, Whole))
      }
    }
  }

  private def isCopy(expression: NamedExpression): Boolean = expression match {
    case _: Attribute | Alias(_: Attribute, _) => true
    case _                                     => false
  }

  private def addWhole(output: Seq[Attribute]): Unit = output.foreach(add(_, Whole))

  private def add(expression: Expression, part: RequiredFields): Unit = expression match {
    case column: Attribute =>
      columns.get(column.exprId).foreach(first => parts(first) = parts(first).and(part))
    case get: GetStructField =>
      add(get.child, member(get.childSchema(get.ordinal).name, part))
    case get: GetArrayStructFields     => add(get.child, member(get.field.name, part))
    case GetArrayItem(child, index, _) => add(child, part); add(index, Whole)
    case _: IsNull | _: IsNotNull      => expression.children.foreach(add(_, Presence))
    case subquery: PlanExpression[_]   => subquery.references.foreach(add(_, Whole))
    case other                         => other.children.foreach(add(_, Whole))
  }
}
