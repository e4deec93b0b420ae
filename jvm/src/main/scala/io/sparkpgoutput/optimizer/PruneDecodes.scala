package io.sparkpgoutput.optimizer

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.types.{DataType, StructType}

import io.sparkpgoutput.decode.FieldSelection
import io.sparkpgoutput.decode.FieldSelection._
import io.sparkpgoutput.decode.sql.DecodeMessage
import io.sparkpgoutput.protocol.MessageSchema
import io.sparkpgoutput.rows.sql.{ReadTuple, TypedRow}

/**
 * Narrows each decode to the fields that the query uses, and each typed row to the columns that the
 * query uses. The columns that hold the row of a decode get the narrower type too.
 *
 * The rule follows a column that a projection makes of a decode or a typed row through operators
 * that pass it on. If the column gets to any other operator, its row stays whole.
 */
object PruneDecodes {
  def apply(plan: LogicalPlan): LogicalPlan = {
    val uses = new UsageAnalysis(rowColumns(plan), ofTuple(plan))
    uses.addPlan(plan)
    plan.transformUp { case operator => operator.mapExpressions(narrow(_, uses)) }
  }

  /**
   * The part of a tuple that typed rows use. If the encoding is UTF-8, it is the cells as they
   * stand in the message.
   */
  private def ofTuple(plan: LogicalPlan): FieldSelection = {
    val isConverted = plan.exists(_.expressions.exists(_.exists {
      case decode: DecodeMessage => !decode.isUtf8
      case _                     => false
    }))
    if (isConverted) All else Cells
  }

  /** The columns that hold a row, each with the column that was first to hold it. */
  private def rowColumns(plan: LogicalPlan): Map[ExprId, RowColumn] = {
    val held = mutable.Map.empty[ExprId, RowColumn]
    plan.foreachUp {
      case Project(list, _) =>
        list.foreach {
          case alias @ Alias(decode: DecodeMessage, _) if isPrunable(decode) =>
            held(alias.exprId) = RowColumn(alias.exprId)
          case alias @ Alias(row: TypedRow, _) if isPrunable(row) =>
            held(alias.exprId) = RowColumn(alias.exprId, typed = Some(row.rowSchema))
          case alias: Alias => heldBy(alias.child, held).foreach(held(alias.exprId) = _)
          case _            =>
        }
      case _ =>
    }
    held.toMap
  }

  /** The row of a column, or of a struct in it that Spark's `NestedColumnAliasing` makes a column. */
  private def heldBy(
      value: Expression,
      held: collection.Map[ExprId, RowColumn]
  ): Option[RowColumn] = value match {
    case column: Attribute => held.get(column.exprId)
    case get @ GetStructField(child, ordinal, _) if get.dataType.isInstanceOf[StructType] =>
      heldBy(child, held).filter(_.typed.isEmpty).map(_.member(get.childSchema(ordinal).name))
    case _ => None
  }

  /** The rule narrows a decode once. It does not change it if Spark optimizes the plan again. */
  private def isPrunable(decode: DecodeMessage): Boolean = decode.selection == All

  /** Columns are told apart by name. */
  private def isPrunable(row: TypedRow): Boolean =
    row.rowType.fieldNames.distinct.length == row.rowType.length

  private def prune(row: TypedRow, part: FieldSelection): Expression = {
    val used = RowColumn.wholeColumns(part, row.rowSchema).members(row.rowType).map(_._1.name).toSet
    if (used.size == row.rowType.length) row
    else row.withColumns(row.rowSchema.required.filter(at => used(row.rowSchema.schema(at).name)))
  }

  /** The ordinal of a member in what is left of a struct. */
  private def ordinal(struct: DataType, ordinal: Int, left: DataType): Int = {
    val (all, some) = (structOf(struct).get, structOf(left).get)
    if (some.names.sameElements(all.names)) ordinal else some.fieldIndex(all(ordinal).name)
  }

  private def narrow(expression: Expression, uses: UsageAnalysis): Expression = {
    val selected = uses.selected

    /** Narrows the expression to `part` of its value, which is the part that the query uses. */
    def narrowed(expression: Expression, part: FieldSelection): Expression = expression match {
      case alias @ Alias(decode: DecodeMessage, _) if selected.contains(alias.exprId) =>
        alias.withNewChildren(Seq(narrowed(decode, selected(alias.exprId))))
      case decode: DecodeMessage =>
        val arguments = decode.mapChildren(narrowed(_, All)).asInstanceOf[DecodeMessage]
        if (!isPrunable(decode) || part.isAll(MessageSchema.schema)) arguments
        else arguments.copy(selection = part)
      case alias @ Alias(row: TypedRow, _) if selected.contains(alias.exprId) =>
        alias.withNewChildren(Seq(prune(withArguments(row), selected(alias.exprId))))
      case row: TypedRow =>
        val arguments = withArguments(row)
        if (isPrunable(row)) prune(arguments, uses.ofRow(row)) else arguments
      case column: AttributeReference if selected.contains(column.exprId) =>
        column.withDataType(selected(column.exprId).prune(column.dataType))
      case get @ GetStructField(child, _, name) =>
        val found = narrowed(child, member(get.childSchema(get.ordinal).name, part))
        GetStructField(found, ordinal(child.dataType, get.ordinal, found.dataType), name)
      case get: GetArrayStructFields =>
        val found = narrowed(get.child, member(get.field.name, part))
        val struct = structOf(found.dataType).get
        val position = ordinal(get.child.dataType, get.ordinal, found.dataType)
        GetArrayStructFields(found, struct(position), position, struct.length, get.containsNull)
      case element @ TextElement(texts, position) =>
        val found = narrowed(texts, Elements(Set(position)))
        element.withNewChildren(found +: element.children.tail)
      case get @ GetArrayItem(child, index, _) =>
        val ofArray = part.ofElement(child.dataType)
        get.withNewChildren(Seq(narrowed(child, ofArray), narrowed(index, All)))
      case _: IsNull | _: IsNotNull => expression.mapChildren(narrowed(_, Presence))
      case _: PlanExpression[_]     => expression // what it takes from this plan stays whole
      case other                    => other.mapChildren(narrowed(_, All))
    }

    /** The row, with the tuple's cells in the place of the tuple if the decode hands them on. */
    def withArguments(row: TypedRow): TypedRow = row match {
      case row: ReadTuple =>
        val tuple = narrowed(row.tuple, uses.ofTuple)
        row.copy(cellsOf(tuple).getOrElse(tuple), narrowed(row.typeIds, All))
      case other => other.mapChildren(narrowed(_, All)).asInstanceOf[TypedRow]
    }
    narrowed(expression, All)
  }

  private def cellsOf(tuple: Expression): Option[Expression] = tuple.dataType match {
    case struct: StructType =>
      val ordinal = struct.names.indexOf(CellsName)
      Option.when(ordinal >= 0)(GetStructField(tuple, ordinal, Some(CellsName)))
    case _ => None
  }
}
