package io.sparkpgoutput.changes.sql

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.unsafe.types.UTF8String

import io.sparkpgoutput.changes.transactions.OpenTransaction

/** Executes [[OpenTransactions]]. It needs the first pass only. */
case class OpenTransactionsExec(
    children: Seq[SparkPlan],
    output: Seq[Attribute],
    val options: ChangesOptions
) extends TwoPassExec {
  override protected def doExecute(): RDD[InternalRow] = {
    val projection = UnsafeProjection.create(output.map(_.dataType).toArray)
    val rows = for {
      stream <- assembled(summarized())
      open <- stream.transactions.state.openTransactions if !isAbandoned(open)
    } yield projection(row(stream.source, open)).copy(): InternalRow
    longMetric("numOutputRows").set(rows.length.toLong)
    postMetrics("numOutputRows")
    sparkContext.parallelize(rows, numSlices = 1)
  }

  private def isAbandoned(open: OpenTransaction) =
    open.state == OpenTransaction.Streaming && options.abandoned(open.transaction.xid)

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
