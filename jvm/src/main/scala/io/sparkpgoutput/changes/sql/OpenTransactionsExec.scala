package io.sparkpgoutput.changes.sql

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.unsafe.types.UTF8String

import io.sparkpgoutput.changes.transactions.{OpenTransaction, OpenTransactionSchema}

case class OpenTransactionsExec(
    children: Seq[SparkPlan],
    output: Seq[Attribute],
    val options: ChangesOptions
) extends TwoPassExec {
  override protected def stringArgs: Iterator[Any] = Iterator(output)

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
