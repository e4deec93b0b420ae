package io.sparkpgoutput.changes.sql

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}

import io.sparkpgoutput.changes.MessageColumns

/**
 * Puts the messages of each source in one partition and in order. The stateful operator above it needs
 * rows that are partitioned and sorted by source, so it keeps this order.
 */
case class OrderedMessages(child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  @transient override lazy val references: AttributeSet = child.outputSet
  override protected def withNewChildInternal(child: LogicalPlan): LogicalPlan = copy(child)
}

case class OrderedMessagesExec(child: SparkPlan) extends UnaryExecNode {

  /** `SQLConf.STATEFUL_SHUFFLE_PARTITIONS_INTERNAL`, which Spark sets when a query restarts. */
  final private val StatePartitionsKey = "spark.sql.streaming.internal.stateStore.partitions"

  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering

  private def source = child.output(MessageColumns.Source)
  private def position = child.output(MessageColumns.Position)

  /**
   * The distribution that the stateful operator asks for. With another one, Spark would add an
   * exchange above this operator, after which the rows are sorted by source only.
   */
  override def requiredChildDistribution: Seq[Distribution] =
    Seq(StatefulOpClusteredDistribution(Seq(source), statePartitions))

  /** The number of partitions of the checkpoint. Since Spark 4.1, it has a setting of its own. */
  private def statePartitions: Int =
    conf.getConfString(StatePartitionsKey, conf.numShufflePartitions.toString).toInt

  override def requiredChildOrdering: Seq[Seq[SortOrder]] = Seq(
    Seq(source, position).map(SortOrder(_, Ascending))
  )

  override protected def doExecute(): RDD[InternalRow] = child.execute()
  override protected def withNewChildInternal(child: SparkPlan): SparkPlan = copy(child)
}
