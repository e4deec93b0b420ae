package io.sparkpgoutput.changes.sql

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}

import io.sparkpgoutput.changes.rows.ChangeFormat
import io.sparkpgoutput.changes.streaming.{CommittedMessage, StreamedChangesIterator}

/** Executes the [[TableChanges]] of a stream. */
case class StreamedChangesExec(
    child: SparkPlan,
    output: Seq[Attribute],
    val options: ChangesOptions,
    val format: ChangeFormat
) extends UnaryExecNode
    with MessagesExec {
  override protected def stringArgs: Iterator[Any] = super.stringArgs ++ format.filter.shown

  override protected def doExecute(): RDD[InternalRow] = {
    val format = this.format
    val sourceType = child.output(CommittedMessage.SOURCE).dataType
    val withSource = output.length > format.rowType.length
    val numOutputRows = longMetric("numOutputRows")
    child.execute().mapPartitions { messages =>
      new StreamedChangesIterator(messages, format, sourceType, withSource, numOutputRows)
    }
  }

  override protected def withNewChildInternal(child: SparkPlan): SparkPlan = copy(child = child)
}
