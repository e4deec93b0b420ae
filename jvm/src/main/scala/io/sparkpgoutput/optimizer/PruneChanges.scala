package io.sparkpgoutput.optimizer

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.rules.Rule

import io.sparkpgoutput.changes.sql._

/**
 * Narrows table changes to the columns that the query uses. It also leaves out the tables and the
 * kinds of changes that the filter above drops. The messages of these changes are still checked. It
 * removes the projection and the checks between the messages and the operator.
 *
 * This rule runs when [[OptimizeDecode]] runs.
 */
object PruneChanges extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!plan.exists(_.isInstanceOf[MessagesOperator])) plan else withPlainInputs(pruned(plan))

  /**
   * Removes the checks of the columns of messages, which the analysis has done, and the new names
   * of these columns.
   */
  private def withPlainInputs(plan: LogicalPlan): LogicalPlan = plan.transformAllExpressions {
    case ArgumentColumn(column, _) => column
  }.transformUp {
    case changes: TableChanges if !changes.isStream =>
      changes.withNewChildren(changes.children.map(withoutNames))
    case open: OpenTransactions => open.withNewChildren(open.children.map(withoutNames))
  }

  /**
   * Removes a projection that only renames columns, because it would write each row once more. The
   * operator finds the columns by their positions.
   */
  private def withoutNames(messages: LogicalPlan): LogicalPlan = messages match {
    case Project(columns, child) =>
      val named = columns.collect {
        case Alias(attribute: Attribute, _) => attribute
        case attribute: Attribute           => attribute
      }
      if (named.length == columns.length) Project(named, child) else messages
    case other => other
  }

  private def pruned(plan: LogicalPlan): LogicalPlan = plan.transformDown {
    case Project(list, Filter(condition, changes: TableChanges)) => // and then the filter
      Project(list, Filter(condition, changes.withColumns(AttributeSet(condition +: list))))
    case Project(list, changes: TableChanges) =>
      Project(list, changes.withColumns(AttributeSet(list)))
    case Filter(condition, changes: TableChanges) =>
      Filter(condition, filtered(changes, condition))
  }

  private def filtered(changes: TableChanges, condition: Expression): LogicalPlan = {
    def admitted(column: Option[Attribute]) = column.flatMap { wanted =>
      FilterValues.of(condition)(_.semanticEquals(wanted)).map(_.map(_.toString))
    }
    changes.withValues(admitted(changes.table), admitted(changes.changeType))
  }
}
