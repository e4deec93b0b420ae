package io.sparkpgoutput.tablefunctions

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}

/**
 * Messages as they are, each source's in order within a partition. A stateful operator above it,
 * which wants its rows in the order of the sources, leaves them so.
 */
case class OrderedMessages(child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  @transient override lazy val references: AttributeSet = child.outputSet
  override protected def withNewChildInternal(child: LogicalPlan): LogicalPlan = copy(child)
}

case class OrderedMessagesExec(child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering

  override def requiredChildOrdering: Seq[Seq[SortOrder]] = Seq(
    Seq(child.output(MessageColumns.Source), child.output(MessageColumns.Position))
      .map(SortOrder(_, Ascending))
  )

  override protected def doExecute(): RDD[InternalRow] = child.execute()
  override protected def withNewChildInternal(child: SparkPlan): SparkPlan = copy(child)
}
