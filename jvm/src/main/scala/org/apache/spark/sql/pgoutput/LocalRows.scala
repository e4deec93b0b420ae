package org.apache.spark.sql.pgoutput

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{DataFrame, SparkSession, classic}

/**
 * DataFrames of rows that the driver has. Spark knows how many there are, and sends them with its tasks.
 * This object is in this package because the Dataset of a plan is `private[sql]`.
 */
object LocalRows {

  /** @param rows rows that nobody changes any more */
  def toDataFrame(
      session: SparkSession,
      rows: IndexedSeq[InternalRow],
      schema: StructType
  ): DataFrame = classic.Dataset.ofRows(
    session.asInstanceOf[classic.SparkSession],
    LocalRelation(DataTypeUtils.toAttributes(schema), rows)
  )

  /** Returns the rows of a DataFrame if the driver has them. */
  def of(rows: DataFrame): Option[Seq[InternalRow]] =
    rows.asInstanceOf[classic.Dataset[_]].queryExecution.analyzed match {
      case local: LocalRelation => Some(local.data)
      case _                    => None
    }
}
