package org.apache.spark.sql.pgoutput

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.streaming.{OutputMode, StatefulProcessorWithInitialState, TimeMode}
import org.apache.spark.sql.types.{DataType, StructField, StructType}
import org.apache.spark.sql.{DataFrame, Encoders, Row, SparkSession, classic}

/**
 * The rows of plans, by way of Datasets: what a plan is made of is another in each version of
 * Spark, what Datasets can do stays. In this package because the Dataset of a plan is
 * `private[sql]`.
 */
object PlannedRows {

  /** Returns whether a table or view is a stream. */
  def isStream(table: String): Boolean =
    active.catalog.tableExists(table) && active.table(table).isStreaming

  /** The plan, analyzed. */
  def analyzed(plan: LogicalPlan): LogicalPlan = dataset(plan).queryExecution.analyzed

  /**
   * Rows in the order of the columns at some places, over all partitions. Not the rows of a plan:
   * what is planned anew while Spark adapts the plan that it is a part of never comes to an end.
   */
  def sorted(rows: RDD[InternalRow], types: Seq[DataType], columns: Seq[Int]): RDD[InternalRow] = {
    val schema = StructType(types.zipWithIndex.map { case (dataType, place) =>
      StructField(s"column$place", dataType)
    })
    val named = active.internalCreateDataFrame(rows, schema)
    named.orderBy(columns.map(place => named.col(schema(place).name)): _*).queryExecution.toRdd
  }

  /**
   * Returns the plan of what a processor makes of rows that are grouped by a column.
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
