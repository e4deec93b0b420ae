package org.apache.spark.sql.pgoutput

import scala.util.Try

import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation
import org.apache.spark.sql.catalyst.expressions.And
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.classic.ColumnNodeToExpressionConverter
import org.apache.spark.sql.connector.catalog.{CatalogPlugin, Table}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.{Column, DataFrame, SparkSession, classic}

/**
 * Reads a table, and runs commands that write rows to a table. The table is given as an object or by its
 * name. The rows need no view.
 *
 * If the table is given as an object, the plan reads and writes through this object. The plan then has
 * no identifier of the table, because Spark would use the identifier to load the table again.
 */
object TablePlans {

  /** A table in a command. */
  sealed trait Written

  /** A table that Spark looks up by the parts of its name. */
  final case class Named(parts: Seq[String]) extends Written

  /** A table that is given as the object that writes it. */
  final case class Loaded(table: Table, catalog: CatalogPlugin) extends Written

  /** Reads the list of a PARTITIONED BY. None if it is not one. */
  def partitioning(list: String): Option[Seq[Transform]] =
    Try(CatalystSqlParser.parsePlan(s"CREATE TABLE t (c INT) USING f PARTITIONED BY ($list)"))
      .toOption.collect { case plan: CreateTable => plan.partitioning }

  def read(session: SparkSession, table: Loaded): DataFrame =
    classic.Dataset.ofRows(classicOf(session), relation(table))

  def append(session: SparkSession, table: Loaded, rows: DataFrame): Unit =
    run(session, AppendData.byName(relation(table), plan(rows)))

  /** Replaces the rows for which an SQL condition is true. */
  def overwrite(session: SparkSession, table: Loaded, rows: DataFrame, where: String): Unit = {
    val condition = classicOf(session).sessionState.sqlParser.parseExpression(where)
    run(session, OverwriteByExpression.byName(relation(table), plan(rows), condition))
  }

  /** Runs `MERGE INTO table AS t USING rows AS s ON condition AND narrowed clauses`. */
  def merge(
      session: SparkSession,
      table: Written,
      rows: DataFrame,
      condition: String,
      clauses: String,
      narrowed: Option[Column]
  ): Unit = {
    val command = s"MERGE INTO $Target AS t USING $Source AS s ON $condition $clauses"
    val parsed = classicOf(session).sessionState.sqlParser.parsePlan(command)
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

  private def plan(rows: DataFrame): LogicalPlan =
    rows.asInstanceOf[classic.Dataset[_]].queryExecution.analyzed

  /** Runs a command. */
  def run(session: SparkSession, command: LogicalPlan): Unit =
    classic.Dataset.ofRows(classicOf(session), command)

  private def classicOf(session: SparkSession) = session.asInstanceOf[classic.SparkSession]
}
