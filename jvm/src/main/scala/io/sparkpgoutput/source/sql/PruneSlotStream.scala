package io.sparkpgoutput.source.sql

import org.apache.spark.sql.catalyst.expressions.AttributeSet
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, Filter, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation

import io.sparkpgoutput.errors.SourceException
import io.sparkpgoutput.source.stream.{NarrowedStream, SlotStream}

/**
 * Narrows a stream of a slot to the columns that the query needs. Spark asks a source for that in batch
 * only (`V2ScanRelationPushDown`).
 */
object PruneSlotStream extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    lazy val used = plan.outputSet ++ AttributeSet(plan.collect { case node => uses(node) }.flatten)
    plan.transform { case relation: StreamingDataSourceV2ScanRelation => narrow(relation, used) }
  }

  private def narrow(relation: StreamingDataSourceV2ScanRelation, used: => AttributeSet) =
    (relation.scan, relation.stream) match {
      case (scan: SlotScan, stream: SlotStream) =>
        val needed = relation.output.filter(used.contains)
        val narrowed = scan.select(needed.map(_.name).toSet)
        val reading = new NarrowedStream(stream, narrowed.output)
        relation.copy(scan = narrowed, stream = reading, output = needed)
      case _ => relation
    }

  /** The attributes that a node needs of its children. Only these nodes do not need all of them. */
  private def uses(node: LogicalPlan) = node match {
    case _: Project | _: Filter | _: Aggregate => node.references
    case _                                     => AttributeSet(node.children.flatMap(_.output))
  }
}

/**
 * Refuses a stream that reads a slot twice, as a join of a slot's changes with themselves does: a slot
 * serves one session at a time.
 */
object OneReadOfSlot extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    val slots = plan.collect {
      case relation: StreamingRelationV2               => relation.table
      case relation: StreamingDataSourceV2ScanRelation => relation.scan
    }.collect {
      case table: SlotTable => table.options
      case scan: SlotScan   => scan.options
    }
    // The text of the options lacks the parameters of the URL, which can name the server.
    slots.groupBy(options => options.url -> options.slot).values.find(_.size > 1).foreach(twice =>
      throw new SourceException("PGOUTPUT_SLOT_IN_USE.READ_TWICE", "slot" -> twice.head.toString)
    )
    plan
  }
}
