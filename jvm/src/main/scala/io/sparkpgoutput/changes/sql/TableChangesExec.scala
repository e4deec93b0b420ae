package io.sparkpgoutput.changes.sql

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.metric.SQLMetrics
import org.apache.spark.sql.types.DataType

import io.sparkpgoutput.changes.ChangesError
import io.sparkpgoutput.changes.batch._
import io.sparkpgoutput.changes.rows.{ChangeFilter, ChangeFormat, ChangeSchema}

/** Executes the [[TableChanges]] of a batch. */
case class TableChangesExec(
    children: Seq[SparkPlan],
    output: Seq[Attribute],
    val options: ChangesOptions,
    val format: ChangeFormat
) extends TwoPassExec {
  override protected def stringArgs: Iterator[Any] = super.stringArgs ++ format.filter.shown

  override protected def doExecute(): RDD[InternalRow] = {
    val streams = summarized()
    val found = assembled(streams)
    val reads = found.flatMap(_.reads).toMap
    val segments = streams.segments.map(_.map(segment => reads(segment.key)))
    sourceType.foreach(checkSources(streams, segments, found, _))
    val withSource = output.length > format.rowType.length
    new TableChangesRDD(
      streams.rows,
      segments,
      options.assembler,
      format,
      sourceType.filter(_ => withSource),
      longMetric("numOutputRows")
    )
  }

  /**
   * Checks that no two sources have the same changes. They do if a user takes a second read of a
   * slot for a source. The check reads the messages once more, but only if sources share a commit.
   */
  private def checkSources(
      streams: SummarizedStreams,
      segments: Seq[Seq[SegmentRead]],
      found: Seq[AssembledStream],
      sourceType: DataType
  ): Unit = if (SharedCommits.exist(found.map(_.transactions.commits))) {
    val fields = format.copy(
      requiredColumns = Nil,
      requiredFields = Seq(ChangeSchema.TABLE, ChangeSchema.COMMIT_VERSION, ChangeSchema.XID),
      filter = ChangeFilter(format.filter.tables)
    )
    val uncounted = SQLMetrics.createMetric(sparkContext, "number of rows")
    new TableChangesRDD(
      streams.rows,
      segments,
      options.assembler,
      fields,
      Some(sourceType),
      uncounted
    ).map { row =>
      val commit = (row.getLong(1), row.getLong(2), row.getUTF8String(0).toString)
      commit -> Set(String.valueOf(row.get(fields.requiredFields.length, sourceType)))
    }.reduceByKey(_ ++ _)
      .filter { case (_, sources) => sources.size > 1 }
      .takeOrdered(1)(Ordering.by(_._1))
      .foreach { case ((lsn, xid, table), sources) =>
        throw ChangesError.sharedCommit(lsn, xid, table, sources.toSeq.sorted)
      }
  }

  override protected def withNewChildrenInternal(children: IndexedSeq[SparkPlan]): SparkPlan =
    copy(children = children)
}
