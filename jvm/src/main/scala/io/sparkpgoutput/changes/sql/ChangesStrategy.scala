package io.sparkpgoutput.changes.sql

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.{SQLExecution, SparkPlan, SparkStrategy, UnaryExecNode}
import org.apache.spark.sql.pgoutput.PlannedRows
import org.apache.spark.sql.types.{DataType, NullType}
import org.apache.spark.unsafe.types.UTF8String

import io.sparkpgoutput.changes.MessageColumns
import io.sparkpgoutput.changes.batch._
import io.sparkpgoutput.changes.rows.{ChangeFilter, ChangeFormat, ChangeSchema}
import io.sparkpgoutput.changes.streaming.{CommittedMessage, StreamedChangesIterator}
import io.sparkpgoutput.changes.transactions.OpenTransaction
import io.sparkpgoutput.errors.PgOutputException
import io.sparkpgoutput.protocol.Lsn

/** Plans the operators of the table functions. */
object ChangesStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case changes @ TableChanges(children, options, format, _, _, isStream) =>
      val inputs = children.map(planLater)
      Seq(
        if (isStream) StreamedChangesExec(inputs.head, changes.output, options, format)
        else TableChangesExec(inputs, changes.output, options, format)
      )
    case open @ OpenTransactions(children, options, _, _) =>
      Seq(OpenTransactionsExec(children.map(planLater), open.output, options))
    case OrderedMessages(messages) => Seq(OrderedMessagesExec(planLater(messages)))
    case _                         => Nil
  }
}

/** Executes the [[TableChanges]] of a batch. */
case class TableChangesExec(
    children: Seq[SparkPlan],
    output: Seq[Attribute],
    options: ChangesOptions,
    format: ChangeFormat
) extends TwoPassExec {
  override protected def stringArgs: Iterator[Any] = super.stringArgs ++ format.filter.shown

  override protected def doExecute(): RDD[InternalRow] = {
    val streams = summarized()
    val found = assembled(streams)
    val reads = found.flatMap(_.reads).toMap
    val segments = streams.segments.map(_.map(segment => reads(segment.key)))
    // Each task gets the segments of its partition only.
    val segmentsOfTasks: RDD[Seq[SegmentRead]] =
      if (segments.isEmpty) sparkContext.emptyRDD
      else sparkContext.parallelize(segments, segments.length)
    val assembler = options.assembler
    def rows(format: ChangeFormat, source: Option[DataType], counted: SQLMetric): RDD[InternalRow] =
      streams.rows.zipPartitions(segmentsOfTasks) { (messages, found) =>
        val segments = found.next().iterator
        new TableChangesIterator(messages, segments, assembler, format, source, counted)
      }
    sourceType.foreach(checkSources(found, _)(rows))
    val withSource = output.length > format.rowType.length
    rows(format, sourceType.filter(_ => withSource), longMetric("numOutputRows"))
  }

  /**
   * Checks that no two sources have the same changes. They do if a user takes a second read of a
   * slot for another source. The check reads the messages once more, but only if sources share a commit.
   */
  private def checkSources(found: Seq[AssembledStream], sourceType: DataType)(
      rows: (ChangeFormat, Option[DataType], SQLMetric) => RDD[InternalRow]
  ): Unit = if (SharedCommits.exist(found.map(_.history.iterator))) {
    val fields = format.copy(
      requiredColumns = Nil,
      requiredFields = Seq(ChangeSchema.TABLE, ChangeSchema.COMMIT_VERSION, ChangeSchema.XID),
      filter = ChangeFilter(format.filter.tables)
    )
    val uncounted = SQLMetrics.createMetric(sparkContext, "number of rows")
    rows(fields, Some(sourceType), uncounted).map { row =>
      val commit = (row.getLong(1), row.getLong(2), row.getUTF8String(0).toString)
      commit -> Set(String.valueOf(row.get(fields.requiredFields.length, sourceType)))
    }.reduceByKey(_ ++ _)
      .filter { case (_, sources) => sources.size > 1 }
      .takeOrdered(1)(Ordering.by(_._1))
      .foreach { case ((lsn, xid, table), sources) =>
        throw new PgOutputException(
          "PGOUTPUT_MESSAGE_ORDER.SHARED_COMMIT",
          "sources" -> sources.toSeq.sorted.take(2).mkString(" and "),
          "lsn" -> Lsn.format(lsn),
          "xid" -> xid,
          "table" -> table
        )
      }
  }

  override protected def withNewChildrenInternal(children: IndexedSeq[SparkPlan]): SparkPlan =
    copy(children = children)
}

/** Executes [[OpenTransactions]]. It needs the first pass only. */
case class OpenTransactionsExec(
    children: Seq[SparkPlan],
    output: Seq[Attribute],
    options: ChangesOptions
) extends TwoPassExec {
  override protected def doExecute(): RDD[InternalRow] = {
    val abandoned =
      AbandonedXids(options.abandoned, sourceType.getOrElse(NullType), conf.sessionLocalTimeZone)
    val projection = UnsafeProjection.create(output.map(_.dataType).toArray)
    val rows = for {
      stream <- assembled(summarized())
      xids = abandoned(stream.source)
      open <- stream.state.openTransactions if !isAbandoned(open, xids)
    } yield projection(row(stream.source, open)).copy(): InternalRow
    longMetric("numOutputRows").set(rows.length.toLong)
    postMetrics("numOutputRows")
    sparkContext.parallelize(rows, numSlices = 1)
  }

  private def isAbandoned(open: OpenTransaction, xids: Set[Long]) =
    open.state == OpenTransaction.Streaming && xids(open.transaction.xid)

  /** The values in the order of [[io.sparkpgoutput.changes.transactions.OpenTransactionSchema]]. */
  private def row(source: Any, open: OpenTransaction): InternalRow = {
    import open.transaction._
    def text(value: String) = UTF8String.fromString(value)
    val values = Seq[Any](xid, text(gid), text(open.state), firstPosition, changes)
    InternalRow.fromSeq(sourceType.map(_ => source).toSeq ++ values)
  }

  override protected def withNewChildrenInternal(children: IndexedSeq[SparkPlan]): SparkPlan =
    copy(children = children)
}

/**
 * Reads the messages in two passes. The first pass summarizes each partition. The driver assembles
 * the transactions from the summaries, so that the second pass can read all partitions in parallel.
 */
abstract class TwoPassExec extends MessagesExec {
  override lazy val metrics: Map[String, SQLMetric] = Map(
    "numOutputRows" -> SQLMetrics.createMetric(sparkContext, "number of output rows"),
    "numMessages" -> SQLMetrics.createMetric(sparkContext, "number of messages"),
    "numCommits" -> SQLMetrics.createMetric(sparkContext, "number of commits"),
    "numOpen" -> SQLMetrics.createMetric(sparkContext, "number of open transactions")
  )

  final protected def sourceType: Option[DataType] =
    messages.output.lift(MessageColumns.Source).map(_.dataType)

  private def messages: SparkPlan = children.head

  /** The first pass. It sorts the messages only if they are not in order. */
  final protected def summarized(): SummarizedStreams = {
    val rows = messages.execute()
    def summarize(rows: RDD[InternalRow], isSorted: Boolean) =
      SummarizedStreams.summarize(rows, sourceType, options.assembler, isSorted)
    summarize(rows, isSorted = false)
      .orElse(summarize(sorted(rows), isSorted = true))
      .getOrElse(throw new IllegalStateException("sorted messages are in order"))
  }

  private def sorted(rows: RDD[InternalRow]): RDD[InternalRow] = {
    val order = Seq(MessageColumns.Source, MessageColumns.Position)
    val types = messages.output.map(_.dataType)
    PlannedRows.sorted(rows, types, order.filter(_ < types.length))
  }

  final protected def assembled(streams: SummarizedStreams): Seq[AssembledStream] = {
    val assembler = options.assembler
    val earlier = children.lift(1).fold(Map.empty[Any, EarlierRelations]) { relations =>
      EarlierRelations.find(relations.execute(), sourceType, assembler.encoding, streams.starts)
    }
    val found = streams.assembled(earlier, assembler)
    warnIfAllIsBefore(found)
    longMetric("numMessages").set(found.map(_.messages).sum)
    longMetric("numCommits").set(found.map(_.history.size).sum)
    longMetric("numOpen").set(found.map(_.state.openTransactions.length.toLong).sum)
    postMetrics("numMessages", "numCommits", "numOpen")
    found
  }

  /** Shows metrics that the driver has counted. */
  final protected def postMetrics(names: String*): Unit = SQLMetrics.postDriverMetricUpdates(
    sparkContext,
    sparkContext.getLocalProperty(SQLExecution.EXECUTION_ID_KEY),
    names.map(metrics)
  )

  /** A read with nothing new, a wrong `after` and missing messages look the same. */
  private def warnIfAllIsBefore(streams: Seq[AssembledStream]): Unit = {
    val after = options.after
    val greatest = streams.map(_.state.greatestCommit).headOption.getOrElse(0L)
    if (after != 0 && !Lsn.isBelow(after, greatest)) {
      val last =
        if (greatest == 0) "there is no commit"
        else s"the greatest commit is ${Lsn.format(greatest)} ($greatest)"
      logWarning(
        s"No commit is above the option 'after', ${Lsn.format(after)} ($after): of " +
          s"${streams.map(_.messages).sum} messages, $last. If you expect changes, check that the " +
          "view has all messages of the new read, and that 'after' is the LSN of a commit."
      )
    }
  }
}

/** Executes the [[TableChanges]] of a stream. */
case class StreamedChangesExec(
    child: SparkPlan,
    output: Seq[Attribute],
    options: ChangesOptions,
    format: ChangeFormat
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

/** A physical operator that turns messages into rows with columns of its own. */
trait MessagesExec extends SparkPlan {
  def options: ChangesOptions

  override lazy val metrics: Map[String, SQLMetric] =
    Map("numOutputRows" -> SQLMetrics.createMetric(sparkContext, "number of output rows"))

  override protected def stringArgs: Iterator[Any] = Iterator(output) ++ options.shown
  final override def producedAttributes: AttributeSet = AttributeSet(output)
  @transient final override lazy val references: AttributeSet = inputSet
}
