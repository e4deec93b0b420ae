package io.sparkpgoutput.optimizer

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.types.{ArrayType, StructType}

import io.sparkpgoutput.expressions.{DecodeFunction, PrunedDecode, TypedRow}
import io.sparkpgoutput.optimizer.RequiredFields.{Presence, Whole, member}

/**
 * Narrows each decode to the fields that the query uses, and with it the columns that hold its row;
 * and each typed row of a tuple to its columns that are used.
 *
 * Followed are columns that a projection makes of a decode or a typed row, from there through
 * operators that pass them on. Where one gets anywhere else it stays whole.
 */
private[optimizer] object PruneDecodes {
  def apply(plan: LogicalPlan): LogicalPlan = {
    val uses = new FieldUses(columns(plan))
    uses.addPlan(plan)
    plan.transformUp { case operator => operator.mapExpressions(narrow(_, uses)) }
  }

  /** The columns that hold such a row, each with the column that was first to hold it. */
  private def columns(plan: LogicalPlan): Map[ExprId, HeldRow] = {
    val held = mutable.Map.empty[ExprId, HeldRow]
    plan.foreachUp {
      case Project(list, _) =>
        list.foreach {
          case alias @ Alias(_: DecodeFunction, _) =>
            held(alias.exprId) = HeldRow(alias.exprId, None)
          case alias @ Alias(row: TypedRow, _) if isPrunable(row) =>
            held(alias.exprId) = HeldRow(alias.exprId, Some(row.rowType))
          case alias @ Alias(column: Attribute, _) =>
            held.get(column.exprId).foreach(held(alias.exprId) = _)
          case _ =>
        }
      case _ =>
    }
    held.toMap
  }

  /** Whether its columns can be told apart by name. */
  def isPrunable(row: TypedRow): Boolean =
    row.rowType.fieldNames.distinct.length == row.rowType.length

  private def prune(row: TypedRow, part: RequiredFields): Expression = {
    val left =
      part.ofTypedRow(row.rowType).prune(row.rowType).asInstanceOf[StructType].fieldNames
    if (left.length == row.rowType.length) row
    else row.withRequired(left.map(row.wholeRow.fieldIndex(_)).toSeq)
  }

  /**
   * Where a member stands in what is left of a struct. By name only there: others' may be alike.
   */
  private def position(whole: StructType, ordinal: Int, left: StructType): Int =
    if (left.length == whole.length) ordinal else left.fieldIndex(whole(ordinal).name)

  private def narrow(expression: Expression, uses: FieldUses): Expression = {
    val required = uses.required

    /** The expression, of whose value `part` is used. */
    def narrowed(expression: Expression, part: RequiredFields): Expression = expression match {
      case alias @ Alias(decode: DecodeFunction, _) if required.contains(alias.exprId) =>
        alias.withNewChildren(Seq(narrowed(decode, required(alias.exprId))))
      case decode: DecodeFunction =>
        val arguments = decode.mapChildren(narrowed(_, Whole)).asInstanceOf[DecodeFunction]
        val left = part.prune(decode.required).asInstanceOf[StructType]
        if (left == decode.required) arguments
        else PrunedDecode.of(arguments).copy(required = left)
      case alias @ Alias(row: TypedRow, _) if required.contains(alias.exprId) =>
        val arguments = row.mapChildren(narrowed(_, Whole)).asInstanceOf[TypedRow]
        alias.withNewChildren(Seq(prune(arguments, required(alias.exprId))))
      case row: TypedRow if isPrunable(row) =>
        val arguments = row.mapChildren(narrowed(_, Whole)).asInstanceOf[TypedRow]
        prune(arguments, uses.ofRow(row))
      case column: AttributeReference if required.contains(column.exprId) =>
        column.withDataType(required(column.exprId).prune(column.dataType))
      case get @ GetStructField(child, _, name) =>
        val found = narrowed(child, member(get.childSchema(get.ordinal).name, part))
        val struct = found.dataType.asInstanceOf[StructType]
        GetStructField(found, position(get.childSchema, get.ordinal, struct), name)
      case get: GetArrayStructFields =>
        val found = narrowed(get.child, member(get.field.name, part))
        val struct = found.dataType.asInstanceOf[ArrayType].elementType.asInstanceOf[StructType]
        val whole = get.child.dataType.asInstanceOf[ArrayType].elementType.asInstanceOf[StructType]
        val ordinal = position(whole, get.ordinal, struct)
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

/**
 * A column that holds a row.
 *
 * @param first
 *   the column that was first to hold it
 * @param typed
 *   of a typed row of a tuple, of which only whole columns can be left out, the type
 */
final private case class HeldRow(first: ExprId, typed: Option[StructType]) {

  /** What is to be left of it, where this part is used. */
  def left(used: RequiredFields): RequiredFields = typed.fold(used)(used.ofTypedRow)
}

/** Finds out which part a plan uses of each of these columns, some of which are others' copies. */
final private class FieldUses(columns: Map[ExprId, HeldRow]) {
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
    case Alias(row: TypedRow, _) if columns.contains(expression.exprId) =>
      row.children.foreach(add(_, Whole))
    case other => add(other, Whole)
  }

  private def addWhole(output: Seq[Attribute]): Unit = output.foreach(add(_, Whole))

  private def add(expression: Expression, part: RequiredFields): Unit = expression match {
    case column: Attribute =>
      columns.get(column.exprId).foreach(held => parts(held.first) = parts(held.first).and(part))
    case row: TypedRow =>
      rows(row.canonicalized) = rows(row.canonicalized).and(part)
      row.children.foreach(add(_, Whole))
    case get: GetStructField =>
      add(get.child, member(get.childSchema(get.ordinal).name, part))
    case get: GetArrayStructFields     => add(get.child, member(get.field.name, part))
    case GetArrayItem(child, index, _) => add(child, part); add(index, Whole)
    case _: IsNull | _: IsNotNull      => expression.children.foreach(add(_, Presence))
    case subquery: PlanExpression[_]   => subquery.references.foreach(add(_, Whole))
    case other                         => other.children.foreach(add(_, Whole))
  }
}
