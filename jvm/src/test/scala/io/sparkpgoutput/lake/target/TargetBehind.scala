package io.sparkpgoutput.lake.target

import java.time.Instant

import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{DataFrame, SparkSession}

import io.sparkpgoutput.lake.catalog.TableShape
import io.sparkpgoutput.lake.core.MarkName

/** A target that passes all calls on to another one. Tests override some of them. */
class TargetBehind(target: Target) extends Target {
  override def format: String = target.format
  override def sqlName(table: String): String = target.sqlName(table)
  override def exists(table: String): Boolean = target.exists(table)
  override def tables(): Seq[String] = target.tables()
  override def look(table: String): TargetLook = target.look(table)
  override def compact(table: String): Boolean = target.compact(table)
  override def isQueried(table: String): Boolean = target.isQueried(table)
  override def forgetOthers(tables: Set[String]): Unit = target.forgetOthers(tables)
  override def keepKeys(table: String): Unit = target.keepKeys(table)
  override def checkpoint(table: String): Unit = target.checkpoint(table)
  override def expire(table: String, since: Instant, versions: Int): Option[String] =
    target.expire(table, since, versions)
  override def removeOrphans(table: String, before: Instant): Option[String] =
    target.removeOrphans(table, before)
  override def read(session: SparkSession, table: String): DataFrame = target.read(session, table)
  override def readVersion(session: SparkSession, table: String, version: String): DataFrame =
    target.readVersion(session, table, version)
  override def properties(table: String): Map[String, String] = target.properties(table)
  override def create(
      table: String,
      schema: StructType,
      key: Seq[String],
      properties: Map[String, String],
      shape: TableShape
  ): Unit = target.create(table, schema, key, properties, shape)
  override def setProperties(table: String, properties: Map[String, String]): Unit =
    target.setProperties(table, properties)
  override def alterProblem(table: String, change: ColumnChange): Option[String] =
    target.alterProblem(table, change)
  override def arrange(
      table: String,
      schema: StructType,
      key: Seq[String],
      shape: TableShape
  ): Unit = target.arrange(table, schema, key, shape)
  override def reshape(table: String, shape: TableShape): Unit = target.reshape(table, shape)
  override def alter(table: String, changes: Seq[ColumnChange]): Unit =
    target.alter(table, changes)
  override def mark(table: String, name: MarkName): Option[Long] = target.mark(table, name)
  override def generation(table: String, job: String, oid: Long): Option[Int] =
    target.generation(table, job, oid)
  override def newest(table: String, job: String): Option[MarkName] = target.newest(table, job)
  override def version(table: String): String = target.version(table)
  override def drop(table: String): Unit = target.drop(table)
  override def commit(
      session: SparkSession,
      table: String,
      name: MarkName,
      expected: Option[Long],
      lsn: Long
  )(write: TargetWrite): Unit =
    target.commit(session, table, name, expected, lsn)(written(write))

  /** Sees each write before its commit, and returns what is committed in its place. */
  protected def written(write: TargetWrite): TargetWrite = write
}
