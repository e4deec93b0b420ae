package org.apache.spark.sql.pgoutput

import scala.jdk.CollectionConverters._
import scala.util.Try

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation
import org.apache.spark.sql.catalyst.expressions.{And, Literal}
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.classic.ClassicConversions.castToImpl
import org.apache.spark.sql.classic.ColumnNodeToExpressionConverter
import org.apache.spark.sql.connector.catalog.{
  CatalogPlugin,
  CatalogV2Util,
  Column => V2Column,
  Identifier,
  Table,
  TableCatalog
}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.streaming.{OutputMode, StatefulProcessorWithInitialState, TimeMode}
import org.apache.spark.sql.types.{DataType, StructField, StructType}
import org.apache.spark.sql.{Column, DataFrame, Encoders, Row, SparkSession, classic}

// The Datasets of plans and of internal rows are `private[sql]`, so the objects in this file are in a package of
// Spark.

/** DataFrames and RDDs of Spark's internal rows. */
object RowsOfRdd {

  /** The rows of a DataFrame. A row is valid until the next one. */
  def of(rows: DataFrame): RDD[InternalRow] = castToImpl(rows).queryExecution.toRdd

  /** Returns how many bytes Spark expects to read. */
  def bytes(rows: DataFrame): BigInt =
    castToImpl(rows).queryExecution.optimizedPlan.stats.sizeInBytes

  def toDataFrame(session: SparkSession, rows: RDD[InternalRow], schema: StructType): DataFrame =
    castToImpl(session).internalCreateDataFrame(rows, withTexts(schema))

  /** The schema that a plan can have: a text in place of a VARCHAR, whose type is in the metadata of its column. */
  def withTexts(schema: StructType): StructType =
    CharVarcharUtils.replaceCharVarcharWithStringInSchema(schema)
}

/** DataFrames of rows that the driver has. Spark knows how many there are, and sends them with its tasks. */
object LocalRows {

  /** @param rows rows that nobody changes any more */
  def toDataFrame(
      session: SparkSession,
      rows: IndexedSeq[InternalRow],
      schema: StructType
  ): DataFrame = classic.Dataset.ofRows(
    castToImpl(session),
    LocalRelation(DataTypeUtils.toAttributes(RowsOfRdd.withTexts(schema)), rows)
  )
}

/**
 * Runs plans as Datasets, because the API of Datasets stays the same from version to version of
 * Spark, and the classes of plans do not.
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
   * @param initial the initial state: a row for each group, with the column of the same name and type
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
        grouped.transformWithState(
          processor,
          TimeMode.None(),
          OutputMode.Append(),
          groups(state, key)
        )(Encoders.row(output), Encoders.row(state.schema))
    }
    castToImpl(result).queryExecution.analyzed
  }

  /** Returns the plan of a query over plans. */
  def query(plans: Seq[LogicalPlan])(query: Seq[DataFrame] => DataFrame): LogicalPlan =
    query(plans.map(dataset)).queryExecution.analyzed

  private def groups(rows: DataFrame, key: StructField) = rows
    .groupBy(rows.col(key.name))
    .as[Row, Row](Encoders.row(StructType(Seq(key))), Encoders.row(rows.schema))

  private def active: classic.SparkSession = castToImpl(SparkSession.active)

  private def dataset(plan: LogicalPlan) = classic.Dataset.ofRows(active, plan)
}

/**
 * Reads a table, and runs commands that write rows to a table. The table is given as an object or by its
 * name. The rows need no view.
 *
 * If the table is given as an object, the plan reads and writes through this object. The plan then has
 * no identifier of the table, because Spark would use the identifier to load the table again.
 */
object TablePlans {

  /** A table in a command. */
  sealed trait WriteTarget

  /** A table that Spark looks up by the parts of its name. */
  final case class Named(parts: Seq[String]) extends WriteTarget

  /** A table that is given as the object that writes it. */
  final case class Loaded(table: Table, catalog: CatalogPlugin) extends WriteTarget

  /** Reads the list of a PARTITIONED BY. None if it is not one. */
  def partitioning(list: String): Option[Seq[Transform]] =
    Try(CatalystSqlParser.parsePlan(s"CREATE TABLE t (c INT) USING f PARTITIONED BY ($list)"))
      .toOption.collect { case plan: CreateTable => plan.partitioning }

  /** Makes a table as CREATE TABLE does, with the current user as its owner. */
  def create(
      catalog: TableCatalog,
      name: Identifier,
      columns: StructType,
      partitions: Seq[Transform],
      properties: Map[String, String]
  ): Unit = catalog.createTable(
    name,
    columns
      .map(field =>
        V2Column
          .create(field.name, field.dataType, field.nullable, field.getComment().orNull, null)
      )
      .toArray,
    partitions.toArray,
    CatalogV2Util.withDefaultOwnership(properties).asJava
  ): Unit

  def read(session: SparkSession, table: Loaded): DataFrame =
    classic.Dataset.ofRows(castToImpl(session), relation(table))

  def append(session: SparkSession, table: Loaded, rows: DataFrame): Unit =
    run(session, AppendData.byName(relation(table), plan(rows)))

  /** Replaces all rows. */
  def overwrite(session: SparkSession, table: Loaded, rows: DataFrame): Unit =
    run(session, OverwriteByExpression.byName(relation(table), plan(rows), Literal(true)))

  /** Runs `MERGE INTO table AS t USING rows AS s ON condition AND narrowed clauses`. */
  def merge(
      session: SparkSession,
      table: WriteTarget,
      rows: DataFrame,
      condition: String,
      clauses: String,
      narrowed: Option[Column]
  ): Unit = {
    val command = s"MERGE INTO $Target AS t USING $Source AS s ON $condition $clauses"
    val parsed = castToImpl(session).sessionState.sqlParser.parsePlan(command)
    run(
      session,
      parsed.transform {
        case found: UnresolvedRelation if found.multipartIdentifier == Seq(Source) => plan(rows)
        case found: UnresolvedRelation if found.multipartIdentifier == Seq(Target) =>
          table match {
            case Named(parts)   => found.copy(multipartIdentifier = parts)
            case loaded: Loaded => relation(loaded)
          }
        case merge: MergeIntoTable =>
          val narrower = narrowed.map(column => ColumnNodeToExpressionConverter(column.node))
          merge.copy(mergeCondition = (merge.mergeCondition +: narrower.toSeq).reduce(And(_, _)))
      }
    )
  }

  // No table has such a name by chance.
  final private val Target = "__spark_pgoutput_target"
  final private val Source = "__spark_pgoutput_rows"

  private def relation(table: Loaded) =
    DataSourceV2Relation.create(table.table, Some(table.catalog), None)

  private def plan(rows: DataFrame): LogicalPlan = castToImpl(rows).queryExecution.analyzed

  /** Runs a command. */
  def run(session: SparkSession, command: LogicalPlan): Unit =
    classic.Dataset.ofRows(castToImpl(session), command)
}
