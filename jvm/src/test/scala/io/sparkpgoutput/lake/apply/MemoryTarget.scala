package io.sparkpgoutput.lake.apply

import java.util.concurrent.ConcurrentHashMap

import scala.collection.concurrent.TrieMap

import org.apache.spark.sql.connector.catalog.{
  Identifier,
  InMemoryRowLevelOperationTableCatalog,
  Table
}
import org.apache.spark.sql.pgoutput.{RowsOfRdd, TablePlans}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{DataFrame, SparkSession}

import io.sparkpgoutput.lake.catalog.TableShape
import io.sparkpgoutput.lake.core.MarkName
import io.sparkpgoutput.lake.target._

/** A catalog of Spark's own tests, whose tables all sessions share. Spark runs MERGE on them. */
final class MemoryCatalog extends InMemoryRowLevelOperationTableCatalog {
  override protected val tables: java.util.Map[Identifier, Table] = MemoryCatalog.tables
}

object MemoryCatalog {
  private val tables = new ConcurrentHashMap[Identifier, Table]
}

/**
 * Tables in memory, with marks.
 *
 * @param isLarge whether all tables seem to be large
 */
final class MemoryTarget(spark: SparkSession, isLarge: Boolean = false) extends Target {
  spark.conf.set("spark.sql.catalog.memory", classOf[MemoryCatalog].getName)

  val marks: TrieMap[String, Long] = TrieMap.empty

  override def format: String = "memory"
  override def sqlName(table: String): String = s"memory.ns.${TablePlace.quoted(table)}"
  override def exists(table: String): Boolean = tables().contains(table)
  override def tables(): Seq[String] = marks.keys.toSeq
  override def compact(table: String): Boolean = false
  override def checkpoint(table: String): Unit = ()
  override def expire(
      table: String,
      since: java.time.Instant,
      versions: Int
  ): Option[String] = None
  override def removeOrphans(table: String, before: java.time.Instant): Option[String] = None
  override def look(table: String): TargetLook =
    TargetLook(read(spark, table).schema, Some("a table in memory has no files"))
  override def properties(table: String): Map[String, String] = Map.empty
  override def alter(table: String, changes: Seq[ColumnChange]): Unit = ()
  override def setProperties(table: String, properties: Map[String, String]): Unit = ()
  override def mark(table: String, name: MarkName): Option[Long] = marks.get(table)
  override def generation(table: String, job: String, oid: Long): Option[Int] = None
  override def newest(table: String, job: String): Option[MarkName] = None
  override def version(table: String): String = marks.get(table).mkString
  override def arrange(
      table: String,
      schema: StructType,
      key: Seq[String],
      shape: TableShape
  ): Unit = ()
  override def reshape(table: String, shape: TableShape): Unit = ()
  override def drop(table: String): Unit = {
    spark.sql(s"DROP TABLE ${sqlName(table)}")
    marks.remove(table): Unit
  }

  override def readVersion(session: SparkSession, table: String, version: String): DataFrame =
    read(session, table)

  override def read(session: SparkSession, table: String): DataFrame = {
    val rows = session.table(sqlName(table))
    // Spark does not know how many bytes an RDD has, so it takes it for a large one.
    if (isLarge) RowsOfRdd.toDataFrame(session, RowsOfRdd.of(rows).map(_.copy()), rows.schema)
    else rows
  }

  override def create(
      table: String,
      schema: StructType,
      key: Seq[String],
      properties: Map[String, String],
      shape: TableShape
  ): Unit = {
    spark.sql(s"CREATE TABLE ${sqlName(table)} (${schema.toDDL})")
    marks.update(table, 0)
  }

  override def commit(
      session: SparkSession,
      table: String,
      name: MarkName,
      expected: Option[Long],
      lsn: Long
  )(write: TargetWrite): Unit = {
    write match {
      case TargetWrite.Append(rows) => rows.writeTo(sqlName(table)).append()
      case TargetWrite.Replace(_, _) | TargetWrite.Direct(_) =>
        throw new UnsupportedOperationException("A table of the tests keeps its columns.")
      case TargetWrite.Overwrite(rows) =>
        // The tables of the tests cannot be overwritten in one go.
        session.sql(s"DELETE FROM ${sqlName(table)}")
        rows.writeTo(sqlName(table)).append()
      case TargetWrite.Merge(rows, condition, clauses, narrowed) =>
        val target = TablePlans.Named(Seq("memory", "ns", table))
        TablePlans.merge(session, target, rows, condition, clauses, narrowed)
    }
    marks.update(table, lsn)
  }
}
