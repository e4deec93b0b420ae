package org.apache.spark.sql.pgoutput

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.streaming.{OutputMode, StatefulProcessorWithInitialState, TimeMode}
import org.apache.spark.sql.types.{DataType, StructField, StructType}
import org.apache.spark.sql.{DataFrame, Encoders, Row, SparkSession, classic}

/**
 * Runs plans as Datasets, because the API of Datasets stays the same from version to version of
 * Spark, and the classes of plans do not. This object is in this package because the Dataset of a
 * plan is `private[sql]`.
 */
object PlannedRows {

  /** Returns whether a table or view is a stream. */
  def isStream(table: String): Boolean =
    active.catalog.tableExists(table) && active.table(table).isStreaming

  /** Returns the analyzed plan. */
  def analyzed(plan: LogicalPlan): LogicalPlan = dataset(plan).queryExecution.analyzed

  /**
   * Sorts rows by the columns at some positions, over all partitions. It takes an RDD and not a
   * plan: if a part of a query is planned again while Spark adapts the whole query, the query never
   * ends.
   */
  def sorted(rows: RDD[InternalRow], types: Seq[DataType], columns: Seq[Int]): RDD[InternalRow] = {
    val schema = StructType(types.zipWithIndex.map { case (dataType, place) =>
      StructField(s"column$place", dataType)
    })
    val named = active.internalCreateDataFrame(rows, schema)
    named.orderBy(columns.map(place => named.col(schema(place).name)): _*).queryExecution.toRdd
  }

  /**
   * Returns the plan of a stateful processor over rows that are grouped by a column.
   *
   * @param initial the initial state: a row for each group, with the column of the same name
   * @param output the schema of the result
   */
  def processed(
      plan: LogicalPlan,
      column: String,
      processor: StatefulProcessorWithInitialState[Row, Row, Row, Row],
      initial: Option[LogicalPlan],
      output: StructType
  ): LogicalPlan = {
    val rows = dataset(plan)
    val key = rows.schema(column)
    val grouped = groups(rows, key)
    val result = initial.map(dataset) match {
      case None =>
        grouped.transformWithState(processor, TimeMode.None(), OutputMode.Append())(
          Encoders.row(output)
        )
      case Some(state) =>
        val cast = state.withColumn(column, state.col(column).cast(key.dataType))
        grouped.transformWithState(
          processor,
          TimeMode.None(),
          OutputMode.Append(),
          groups(cast, key)
        )(Encoders.row(output), Encoders.row(cast.schema))
    }
    result.asInstanceOf[classic.Dataset[Row]].queryExecution.analyzed
  }

  /** Returns the plan of a query over plans. */
  def query(plans: Seq[LogicalPlan])(query: Seq[DataFrame] => DataFrame): LogicalPlan =
    query(plans.map(dataset)).queryExecution.analyzed

  private def groups(rows: DataFrame, key: StructField) = rows
    .groupBy(rows.col(key.name))
    .as[Row, Row](Encoders.row(StructType(Seq(key))), Encoders.row(rows.schema))

  private def active: classic.SparkSession =
    SparkSession.active.asInstanceOf[classic.SparkSession]

  private def dataset(plan: LogicalPlan) = classic.Dataset.ofRows(active, plan)
}
