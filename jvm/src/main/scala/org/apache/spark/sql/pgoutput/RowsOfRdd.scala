package org.apache.spark.sql.pgoutput

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{DataFrame, SparkSession, classic}

/**
 * DataFrames and RDDs of Spark's internal rows. This object is in this package because the
 * DataFrame of an RDD of internal rows is `private[sql]`.
 */
object RowsOfRdd {

  /** The rows of a DataFrame. A row is valid until the next one. */
  def of(rows: DataFrame): RDD[InternalRow] =
    rows.asInstanceOf[classic.Dataset[_]].queryExecution.toRdd

  /** Returns how many bytes Spark expects to read. */
  def bytes(rows: DataFrame): BigInt =
    rows.asInstanceOf[classic.Dataset[_]].queryExecution.optimizedPlan.stats.sizeInBytes

  def toDataFrame(session: SparkSession, rows: RDD[InternalRow], schema: StructType): DataFrame =
    session.asInstanceOf[classic.SparkSession].internalCreateDataFrame(rows, schema)
}
