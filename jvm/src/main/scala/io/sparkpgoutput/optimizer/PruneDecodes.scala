package io.sparkpgoutput.optimizer

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.types.{ArrayType, StructType}

import io.sparkpgoutput.decode.sql.{DecodeFunction, PrunedDecode}
import io.sparkpgoutput.optimizer.RequiredFields.{Cells, Elements, Presence, Whole, member}
import io.sparkpgoutput.rows.sql.{RowFunction, TypedRow}

/**
 * Narrows each decode to the fields that the query uses, and with it the columns that hold its row;
 * and each typed row of a tuple to its columns that are used.
 *
 * Followed are columns that a projection makes of a decode or a typed row, from there through
 * operators that pass them on. Where one gets anywhere else it stays whole.
 */
object PruneDecodes {
  def apply(plan: LogicalPlan): LogicalPlan = {
    val uses = new FieldUses(columns(plan), ofTuple(plan))
    uses.addPlan(plan)
    plan.transformUp { case operator => operator.mapExpressions(narrow(_, uses)) }
  }

  /** What typed rows use of a tuple: in UTF-8 they read it as it stands in the message. */
  private def ofTuple(plan: LogicalPlan): RequiredFields = {
    val isConverted = plan.exists(_.expressions.exists(_.exists {
      case decode: DecodeFunction => !decode.isUtf8
      case _                      => false
    }))
    if (isConverted) Whole else Cells
  }

  /** The columns that hold such a row, each with the column that was first to hold it. */
  private def columns(plan: LogicalPlan): Map[ExprId, HeldRow] = {
    val held = mutable.Map.empty[ExprId, HeldRow]
    plan.foreachUp {
      case Project(list, _) =>
        list.foreach {
          case alias @ Alias(_: DecodeFunction, _) =>
            held(alias.exprId) = HeldRow(alias.exprId)
          case alias @ Alias(row: TypedRow, _) if isPrunable(row) =>
            held(alias.exprId) = HeldRow(alias.exprId, typed = Some(row.rowType))
          case alias: Alias => heldBy(alias.child, held).foreach(held(alias.exprId) = _)
          case _            =>
        }
      case _ =>
    }
    held.toMap
  }

  /** Of columns, and of the structs in them that Spark's `NestedColumnAliasing` makes columns. */
  private def heldBy(value: Expression, held: collection.Map[ExprId, HeldRow]): Option[HeldRow] =
    value match {
      case column: Attribute => held.get(column.exprId)
      case get @ GetStructField(child, ordinal, _) if get.dataType.isInstanceOf[StructType] =>
        heldBy(child, held).filter(_.typed.isEmpty).map(_.member(get.childSchema(ordinal).name))
      case _ => None
    }

  /** Whether its columns can be told apart by name. */
  private def isPrunable(row: TypedRow): Boolean =
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
    if (left.names.sameElements(whole.names)) ordinal else left.fieldIndex(whole(ordinal).name)

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
        alias.withNewChildren(Seq(prune(withArguments(row), required(alias.exprId))))
      case row: TypedRow =>
        val arguments = withArguments(row)
        if (isPrunable(row)) prune(arguments, uses.ofRow(row)) else arguments
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
      case element @ TextElement(texts, position) =>
        val found = narrowed(texts, Elements(Set(position)))
        element.withNewChildren(found +: element.children.tail)
      case get @ GetArrayItem(child, index, _) =>
        get.withNewChildren(Seq(narrowed(child, part.ofElement(child)), narrowed(index, Whole)))
      case _: IsNull | _: IsNotNull => expression.mapChildren(narrowed(_, Presence))
      case _: PlanExpression[_]     => expression // what it takes from this plan stays whole
      case other                    => other.mapChildren(narrowed(_, Whole))
    }

    /** The row, its tuple's bytes in the place of the tuple where these are handed on. */
    def withArguments(row: TypedRow): TypedRow = row match {
      case row: RowFunction =>
        val tuple = narrowed(row.tuple, uses.ofTuple)
        val arguments = tuple +: row.children.tail.map(narrowed(_, Whole))
        val ofTuple = row.withNewChildren(arguments).asInstanceOf[RowFunction]
        cellsOf(tuple).fold(ofTuple)(ofTuple.ofCells)
      case other => other.mapChildren(narrowed(_, Whole)).asInstanceOf[TypedRow]
    }
    narrowed(expression, Whole)
  }

  private def cellsOf(tuple: Expression): Option[Expression] = tuple.dataType match {
    case struct: StructType =>
      val ordinal = struct.names.indexOf(RequiredFields.CellsName)
      Option.when(ordinal >= 0)(GetStructField(tuple, ordinal, Some(RequiredFields.CellsName)))
    case _ => None
  }
}
