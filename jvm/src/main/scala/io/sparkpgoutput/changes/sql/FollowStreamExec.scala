package io.sparkpgoutput.changes.sql

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.pgoutput.PlannedRows
import org.apache.spark.sql.types.DataType
import org.apache.spark.unsafe.types.UTF8String

import io.sparkpgoutput.changes.{
  ChangeFormat,
  FollowerState,
  OpenTransaction,
  OpenTransactionSchema,
  StreamFold
}

/**
 * Follows streams in two passes over the messages. The first finds what each partition means for
 * those behind it; that is folded here, on the driver, so that the second can read all partitions
 * at the same time.
 */
sealed abstract class FollowStreamExec extends SparkPlan {
  def options: ChangesOptions

  override lazy val metrics: Map[String, SQLMetric] =
    Map("numOutputRows" -> SQLMetrics.createMetric(sparkContext, "number of output rows"))

  override def producedAttributes: AttributeSet = AttributeSet(output)
  override protected def stringArgs: Iterator[Any] = Iterator(output)
  @transient override lazy val references: AttributeSet = AttributeSet(children.flatMap(_.output))

  final protected def messages: SparkPlan = children.head
  final protected def sourceType: Option[DataType] =
    messages.output.lift(MessageColumns.Source).map(_.dataType)

  /** Where the columns are that messages are sorted by. */
  private def order: Seq[Int] =
    Seq(MessageColumns.Source, MessageColumns.Position).filter(_ < messages.output.length)

  /** The streams, sorted first where they are not in order. */
  final def streams(): MessageStreams = {
    val rules = options.rules
    val rows = messages.execute()
    MessageStreams
      .summarize(rows, sourceType, rules)
      .orElse(MessageStreams.summarize(sorted(rows), sourceType, rules))
      .getOrElse(throw new IllegalStateException("sorted messages are in order"))
  }

  private def sorted(rows: RDD[InternalRow]): RDD[InternalRow] =
    PlannedRows.sorted(rows, messages.output.map(_.dataType), order)

  /** The parts of each stream, in order, and what folding them tells. */
  final def folded(
      streams: MessageStreams
  ): Seq[(Seq[StreamPart], StreamFold)] = {
    val bySource = streams.bySource
    val begins = bySource.map(stream => stream.head.source -> stream.head.summary.first).toMap
    val earlier = children.lift(1).fold(Map.empty[Any, FollowerState]) { plan =>
      EarlierRelations.find(plan.execute(), sourceType, options.rules, begins)
    }
    bySource.map { stream =>
      val start = earlier.getOrElse(stream.head.source, FollowerState())
      val fold = new StreamFold(start, options.rules)
      stream.foreach(part => fold.add(part.summary))
      stream -> fold
    }
  }
}

case class TableChangesExec(
    children: Seq[SparkPlan],
    output: Seq[Attribute],
    val options: ChangesOptions,
    val format: ChangeFormat
) extends FollowStreamExec {
  override protected def stringArgs: Iterator[Any] = Iterator(output) ++ format.filter.shown

  override protected def doExecute(): RDD[InternalRow] = {
    val found = streams()
    val carried = folded(found)
      .flatMap { case (stream, fold) => stream.zip(fold.carried) }
      .map { case (part, state) => (part.source, part.summary.first) -> state }
      .toMap
    val parts = found.parts.map(_.map { part =>
      CarriedPart(part.summary.fingerprint, carried((part.source, part.summary.first)))
    })
    val withSource = output.length > format.rowType.length
    new TableChangesRDD(
      found.rows,
      parts,
      options.rules,
      format,
      sourceType.filter(_ => withSource),
      longMetric("numOutputRows")
    )
  }

  override protected def withNewChildrenInternal(children: IndexedSeq[SparkPlan]): SparkPlan =
    copy(children = children)
}

case class OpenTransactionsExec(
    children: Seq[SparkPlan],
    output: Seq[Attribute],
    val options: ChangesOptions
) extends FollowStreamExec {

  override protected def doExecute(): RDD[InternalRow] = {
    val projection = UnsafeProjection.create(output.map(_.dataType).toArray)
    val rows = folded(streams()).flatMap { case (stream, fold) =>
      fold.state.openTransactions
        .filterNot(open =>
          open.state == OpenTransaction.Streaming && options.abandoned(open.transaction.xid)
        )
        .map(open => projection(row(stream.head.source, open)).copy(): InternalRow)
    }
    longMetric("numOutputRows") += rows.length.toLong
    sparkContext.parallelize(rows, numSlices = 1)
  }

  private def row(source: Any, open: OpenTransaction): InternalRow = {
    import open.transaction._
    val values = new Array[Any](OpenTransactionSchema.schema.length)
    values(OpenTransactionSchema.XID) = xid
    values(OpenTransactionSchema.GID) = UTF8String.fromString(gid)
    values(OpenTransactionSchema.STATE) = UTF8String.fromString(open.state)
    values(OpenTransactionSchema.FIRST_POSITION) = firstPosition
    values(OpenTransactionSchema.CHANGES) = changes
    InternalRow.fromSeq(sourceType.map(_ => source).toSeq ++ values)
  }

  override protected def withNewChildrenInternal(children: IndexedSeq[SparkPlan]): SparkPlan =
    copy(children = children)
}
