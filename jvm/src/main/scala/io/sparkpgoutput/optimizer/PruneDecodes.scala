package io.sparkpgoutput.optimizer

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.types.{ArrayType, DataType, StringType, StructType}

import io.sparkpgoutput.decode.FieldSelection
import io.sparkpgoutput.decode.FieldSelection._
import io.sparkpgoutput.decode.sql.DecodeMessage
import io.sparkpgoutput.protocol.MessageSchema
import io.sparkpgoutput.rows.RowSchema
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
   * are in the message.
   */
  private def ofTuple(plan: LogicalPlan): FieldSelection = {
    val isConverted = plan.exists(_.expressions.exists(_.exists {
      case decode: DecodeMessage => !decode.isUtf8
      case _                     => false
    }))
    if (isConverted) All else Cells
  }

  /** The columns that hold a decoded or typed row, each with the column in which the plan has made this row. */
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

  /** Columns are found by their names, so no two may have the same name. */
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
        val Seq(found) = narrowedChildren(get, part)
        GetStructField(found, ordinal(child.dataType, get.ordinal, found.dataType), name)
      case get: GetArrayStructFields =>
        val Seq(found) = narrowedChildren(get, part)
        val struct = structOf(found.dataType).get
        val position = ordinal(get.child.dataType, get.ordinal, found.dataType)
        GetArrayStructFields(found, struct(position), position, struct.length, get.containsNull)
      case _: PlanExpression[_] => expression // what it takes from this plan stays whole
      case other                => other.withNewChildren(narrowedChildren(other, part))
    }

    def narrowedChildren(expression: Expression, part: FieldSelection): Seq[Expression] =
      uses.ofChildren(expression, part).map { case (child, used) => narrowed(child, used) }

    /** The row, with the tuple's cells in place of the tuple if the decode passes them on. */
    def withArguments(row: TypedRow): TypedRow = row match {
      case row: ReadTuple =>
        val Seq(tuple, typeIds) = narrowedChildren(row, All)
        row.copy(cellsOf(tuple).getOrElse(tuple), typeIds)
      case other => other.mapChildren(narrowed(_, All)).asInstanceOf[TypedRow]
    }
    narrowed(expression, All)
  }

  private def cellsOf(tuple: Expression): Option[Expression] = tuple.dataType match {
    case struct: StructType if struct.names.contains(CellsName) =>
      Some(GetStructField(tuple, struct.fieldIndex(CellsName), Some(CellsName)))
    case _ => None
  }
}

/**
 * Finds out which part a plan uses of each column that holds a row, and of each typed row.
 *
 * @param ofTuple the part that typed rows use of a tuple
 */
final class UsageAnalysis(columns: Map[ExprId, RowColumn], ofTuple: FieldSelection) {
  private val parts =
    mutable.Map.from[ExprId, FieldSelection](columns.valuesIterator.map(_.first -> Presence))

  /** The parts of typed rows that no column holds. Spark converts the same row once for all uses. */
  private val rows = mutable.Map.empty[Expression, FieldSelection].withDefaultValue(Presence)

  lazy val selected: Map[ExprId, FieldSelection] = columns.map { case (id, column) =>
    id -> column.ofColumn(parts(column.first))
  }

  def ofRow(row: TypedRow): FieldSelection = rows(row.canonicalized)

  def addPlan(plan: LogicalPlan): Unit = {
    plan.output.foreach(add(_, All))
    plan.foreach { operator =>
      if (!TransparentOperators.contains(operator))
        operator.children.flatMap(_.output).foreach(add(_, All))
      operator match {
        case Project(list, _) => list.foreach(addProjected)
        case other            => other.expressions.foreach(add(_, All))
      }
    }
  }

  /**
   * Adds what a projection uses, except the columns that it passes on and the rows that its columns hold: a query
   * uses these through the columns.
   */
  private def addProjected(expression: NamedExpression): Unit = expression match {
    case _: Attribute | Alias(_: Attribute, _)                          => ()
    case Alias(row: TypedRow, _) if columns.contains(expression.exprId) => addChildren(row, All)
    case Alias(_: GetStructField, _) if columns.contains(expression.exprId) =>
      add(expression.toAttribute, Presence)
    case other => add(other, All)
  }

  private def add(expression: Expression, part: FieldSelection): Unit = expression match {
    case column: Attribute =>
      columns.get(column.exprId).foreach { held =>
        parts(held.first) = parts(held.first).and(held.ofRow(part))
      }
    case row: TypedRow =>
      rows(row.canonicalized) = rows(row.canonicalized).and(part)
      addChildren(row, All)
    case subquery: PlanExpression[_] => subquery.references.foreach(add(_, All))
    case other                       => addChildren(other, part)
  }

  private def addChildren(expression: Expression, part: FieldSelection): Unit =
    ofChildren(expression, part).foreach { case (child, used) => add(child, used) }

  /** The children of an expression, with the part that it uses of each, if the query uses `part` of its value. */
  def ofChildren(
      expression: Expression,
      part: FieldSelection
  ): Seq[(Expression, FieldSelection)] = {
    val used = expression match {
      case get: GetStructField       => Seq(member(get.childSchema(get.ordinal).name, part))
      case get: GetArrayStructFields => Seq(member(get.field.name, part))
      case TextElement(_, position)  => Seq(Elements(Set(position)), All)
      // The part of an array of structs is that of its elements.
      case get: GetArrayItem if get.dataType.isInstanceOf[StructType] => Seq(part, All)
      case _: ReadTuple                                               => Seq(ofTuple, All)
      // Users check every column with `pgoutput_row(…) IS NULL`; Spark infers only IS NOT NULL itself.
      case IsNull(row) if isTypedRow(row) => Seq(All)
      case _: IsNull | _: IsNotNull       => Seq(Presence)
      case other                          => other.children.map(_ => All)
    }
    expression.children.zip(used)
  }

  private def isTypedRow(expression: Expression): Boolean = expression match {
    case column: Attribute => columns.get(column.exprId).exists(_.typed.isDefined)
    case other             => other.isInstanceOf[TypedRow]
  }
}

/**
 * A column that holds a row, or a struct of a row.
 *
 * @param first the column that was first to hold the row
 * @param path the names of the members that lead to the struct
 * @param typed the schema of a typed row, None for the row of a decode
 */
final case class RowColumn(
    first: ExprId,
    path: Seq[String] = Nil,
    typed: Option[RowSchema] = None
) {
  def member(name: String): RowColumn = copy(path = path :+ name)

  /** Returns the used part of the row, for a used part of the column. */
  def ofRow(part: FieldSelection): FieldSelection = path.foldRight(part)(FieldSelection.member)

  /** Returns the used part of the column, for a used part of the row. */
  def ofColumn(used: FieldSelection): FieldSelection =
    typed.fold(path.foldLeft(used)(_.of(_)))(RowColumn.wholeColumns(used, _))
}

object RowColumn {

  /**
   * Widens a selection to whole columns, because a typed row cannot leave out a part of a column.
   */
  def wholeColumns(used: FieldSelection, row: RowSchema): FieldSelection =
    if (used.isAll(row.rowType)) FieldSelection.All
    else {
      val names = used.members(row.rowType).map { case (column, _) => column.name }
      FieldSelection.members(names: _*)
    }
}

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
