package io.sparkpgoutput.changes.sql

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.SparkPlan

import io.sparkpgoutput.changes.batch.{SegmentRead, TableChangesRDD}
import io.sparkpgoutput.changes.rows.ChangeFormat

case class TableChangesExec(
    children: Seq[SparkPlan],
    output: Seq[Attribute],
    val options: ChangesOptions,
    val format: ChangeFormat
) extends TwoPassExec {
  override protected def stringArgs: Iterator[Any] = Iterator(output) ++ format.filter.shown

  override protected def doExecute(): RDD[InternalRow] = {
    val found = streams()
    val carried = folded(found)
      .flatMap { case (stream, fold) => stream.zip(fold.carried) }
      .map { case (part, state) => (part.source, part.summary.first) -> state }
      .toMap
    val parts = found.parts.map(_.map { part =>
      SegmentRead(part.summary.fingerprint, carried((part.source, part.summary.first)))
    })
    val withSource = output.length > format.rowType.length
    new TableChangesRDD(
      found.rows,
      parts,
      options.assembler,
      format,
      sourceType.filter(_ => withSource),
      longMetric("numOutputRows")
    )
  }

  override protected def withNewChildrenInternal(children: IndexedSeq[SparkPlan]): SparkPlan =
    copy(children = children)
}
