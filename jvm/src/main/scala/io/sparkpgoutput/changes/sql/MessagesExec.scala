package io.sparkpgoutput.changes.sql

import org.apache.spark.sql.catalyst.expressions.AttributeSet
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}

/** A physical operator that turns messages into rows with columns of its own. */
trait MessagesExec extends SparkPlan {
  def options: ChangesOptions

  override lazy val metrics: Map[String, SQLMetric] =
    Map("numOutputRows" -> SQLMetrics.createMetric(sparkContext, "number of output rows"))

  override protected def stringArgs: Iterator[Any] = Iterator(output) ++ options.shown
  final override def producedAttributes: AttributeSet = AttributeSet(output)
  @transient final override lazy val references: AttributeSet =
    AttributeSet(children.flatMap(_.output))
}
