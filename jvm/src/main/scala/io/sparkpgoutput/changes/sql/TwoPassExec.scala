package io.sparkpgoutput.changes.sql

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.{SQLExecution, SparkPlan}
import org.apache.spark.sql.pgoutput.PlannedRows
import org.apache.spark.sql.types.DataType

import io.sparkpgoutput.changes.MessageColumns
import io.sparkpgoutput.changes.batch.{AssembledStream, EarlierRelations, SummarizedStreams}
import io.sparkpgoutput.protocol.Lsn

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
    def summarize(rows: RDD[InternalRow]) =
      SummarizedStreams.summarize(rows, sourceType, options.assembler)
    summarize(rows)
      .orElse(summarize(sorted(rows)))
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
    longMetric("numCommits").set(found.map(_.transactions.numberOfCommits).sum)
    longMetric("numOpen").set(found.map(_.transactions.state.openTransactions.length.toLong).sum)
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
    val greatest = streams.map(_.transactions.state.greatestCommit).headOption.getOrElse(0L)
    if (after != 0 && java.lang.Long.compareUnsigned(greatest, after) <= 0) {
      val last =
        if (greatest == 0) "there is no commit"
        else s"the greatest commit is ${Lsn.format(greatest)} ($greatest)"
      logWarning(
        s"No commit is above the option 'after', ${Lsn.format(after)} ($after): of " +
          s"${streams.map(_.messages).sum} messages, $last. If you expect changes, check that the " +
          "view has all messages of the new read, and that 'after' is a _commit_version."
      )
    }
  }
}
