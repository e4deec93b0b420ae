package io.sparkpgoutput.optimizer

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.rules.Rule

import io.sparkpgoutput.expressions.ArgumentColumn
import io.sparkpgoutput.tablefunctions.ChangesOperator

/**
 * Narrows table changes to the columns that the query uses, and lets them leave out the tables and
 * the kinds of changes that the filter above drops. What is left out is checked all the same.
 *
 * For after Spark's own rules, as [[OptimizeDecode]].
 */
object PruneChanges extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = pruned(plan).transformAllExpressions {
    case ArgumentColumn(column, _) => column // what it checks has been checked
  }

  private def pruned(plan: LogicalPlan): LogicalPlan = plan.transformDown {
    case Project(list, Filter(condition, changes: ChangesOperator)) =>
      val used = AttributeSet(condition +: list)
      Project(list, Filter(condition, filtered(changes.withColumns(used), condition)))
    case Project(list, changes: ChangesOperator) =>
      Project(list, changes.withColumns(AttributeSet(list)))
    case Filter(condition, changes: ChangesOperator) =>
      Filter(condition, filtered(changes, condition))
  }

  private def filtered(changes: ChangesOperator, condition: Expression): LogicalPlan = {
    def admitted(column: Option[Attribute]) = column.flatMap { wanted =>
      AdmittedValues.of(condition)(_.semanticEquals(wanted)).map(_.map(_.toString))
    }
    changes.withValues(admitted(changes.table), admitted(changes.changeType))
  }
}
