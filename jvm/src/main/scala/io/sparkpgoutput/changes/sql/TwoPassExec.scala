package io.sparkpgoutput.changes.sql

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.pgoutput.PlannedRows
import org.apache.spark.sql.types.DataType

import io.sparkpgoutput.changes.MessageColumns
import io.sparkpgoutput.changes.batch.{
  EarlierRelations,
  StreamSegment,
  SummarizedStreams,
  SummaryAssembler
}
import io.sparkpgoutput.changes.transactions.AssemblerState

/**
 * Reads the messages in two passes. The first pass summarizes each partition. The driver assembles
 * the transactions from the summaries, so that the second pass can read all partitions in parallel.
 */
abstract class TwoPassExec extends MessagesExec {
  def options: ChangesOptions

  final protected def messages: SparkPlan = children.head
  final protected def sourceType: Option[DataType] =
    messages.output.lift(MessageColumns.Source).map(_.dataType)

  /** Where the columns are that messages are sorted by. */
  private def order: Seq[Int] =
    Seq(MessageColumns.Source, MessageColumns.Position).filter(_ < messages.output.length)

  /** The streams, sorted first where they are not in order. */
  final def streams(): SummarizedStreams = {
    val assembler = options.assembler
    val rows = messages.execute()
    SummarizedStreams
      .summarize(rows, sourceType, assembler)
      .orElse(SummarizedStreams.summarize(sorted(rows), sourceType, assembler))
      .getOrElse(throw new IllegalStateException("sorted messages are in order"))
  }

  private def sorted(rows: RDD[InternalRow]): RDD[InternalRow] =
    PlannedRows.sorted(rows, messages.output.map(_.dataType), order)

  /** The parts of each stream, in order, and what folding them tells. */
  final def folded(
      streams: SummarizedStreams
  ): Seq[(Seq[StreamSegment], SummaryAssembler)] = {
    val bySource = streams.bySource
    val begins = bySource.map(stream => stream.head.source -> stream.head.summary.first).toMap
    val earlier = children.lift(1).fold(Map.empty[Any, AssemblerState]) { plan =>
      EarlierRelations.find(plan.execute(), sourceType, options.assembler, begins)
    }
    bySource.map { stream =>
      val start = earlier.getOrElse(stream.head.source, AssemblerState())
      val fold = new SummaryAssembler(start, options.assembler)
      stream.foreach(part => fold.add(part.summary))
      stream -> fold
    }
  }
}
