package io.sparkpgoutput.source.sql

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation

import io.sparkpgoutput.source.SourceError

/**
 * Refuses a stream that reads a slot twice, as a join of a slot's changes with themselves does: a slot
 * serves one session at a time.
 */
object OneReadOfSlot extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    val slots = plan.collect(reads)
    slots.diff(slots.distinct).headOption.foreach(slot => throw SourceError.readTwice(slot))
    plan
  }

  private val reads: PartialFunction[LogicalPlan, String] = Function.unlift {
    case relation: StreamingRelationV2 =>
      Option(relation.table).collect { case table: SlotTable => table.options.toString }
    case relation: StreamingDataSourceV2ScanRelation =>
      Option(relation.scan).collect { case scan: SlotScan => scan.options.toString }
    case _ => None
  }
}
