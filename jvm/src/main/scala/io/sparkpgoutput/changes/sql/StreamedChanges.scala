package io.sparkpgoutput.changes.sql

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.types.DataType

import io.sparkpgoutput.changes.ChangeFormat
import io.sparkpgoutput.changes.streaming.{CommittedMessage, StreamedRows}

/** The rows of the committed changes that [[CommittedMessage]]s have. */
case class StreamedChanges(
    child: LogicalPlan,
    val format: ChangeFormat,
    columns: Seq[Attribute],
    sourceId: Option[ExprId]
) extends ChangesOperator {
  override def children: Seq[LogicalPlan] = Seq(child)
  override protected def sourceType: DataType = child.output(CommittedMessage.SOURCE).dataType

  override protected def copied(
      format: ChangeFormat,
      columns: Seq[Attribute],
      sourceId: Option[ExprId]
  ): ChangesOperator = copy(format = format, columns = columns, sourceId = sourceId)

  override protected def withNewChildrenInternal(children: IndexedSeq[LogicalPlan]): LogicalPlan =
    copy(child = children.head)
}

case class StreamedChangesExec(
    child: SparkPlan,
    output: Seq[Attribute],
    val format: ChangeFormat
) extends UnaryExecNode {
  override lazy val metrics: Map[String, SQLMetric] =
    Map("numOutputRows" -> SQLMetrics.createMetric(sparkContext, "number of output rows"))
  override def producedAttributes: AttributeSet = AttributeSet(output)
  @transient override lazy val references: AttributeSet = child.outputSet
  override protected def stringArgs: Iterator[Any] =
    Iterator(output) ++ format.filter.shown

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

/** The rows of one partition, of one source after the other. */
final private class StreamedChangesIterator(
    messages: Iterator[InternalRow],
    format: ChangeFormat,
    sourceType: DataType,
    withSource: Boolean,
    numOutputRows: SQLMetric
) extends Iterator[InternalRow] {
  private var source: Any = _
  private var rows: StreamedRows = _
  private var message: InternalRow = _
  private val join =
    if (withSource) new SourceJoin(format, sourceType, CommittedMessage.SOURCE) else null

  override def hasNext: Boolean = {
    while ((rows == null || !rows.hasNext) && messages.hasNext) read(messages.next())
    rows != null && rows.hasNext
  }

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException
    numOutputRows += 1
    if (join == null) rows.next() else join(rows.next(), message)
  }

  private def read(row: InternalRow): Unit = {
    message = row
    val found =
      if (row.isNullAt(CommittedMessage.SOURCE)) null
      else row.get(CommittedMessage.SOURCE, sourceType)
    if (rows == null || found != source) {
      rows = new StreamedRows(format)
      source = InternalRow.copyValue(found)
    }
    rows.message(row)
  }
}
