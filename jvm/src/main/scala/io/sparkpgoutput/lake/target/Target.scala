package io.sparkpgoutput.lake.target

import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{Column, DataFrame, SparkSession}

import io.sparkpgoutput.lake.MarkName

/**
 * The place of the tables that are kept equal: a namespace of a catalog, or a folder of Delta
 * tables. The names of tables are those in the namespace, without quotes.
 */
trait Target {

  /** The name of the format in SQL: `delta` or `iceberg`. */
  def format: String

  /** The name of a table in SQL, quoted. */
  def sqlName(table: String): String

  def exists(table: String): Boolean

  /** Returns why a table cannot have a name, or None if it can. */
  def nameProblem(name: String): Option[String] = None

  /** Returns why a column cannot have a name, or None if it can. */
  def columnProblem(name: String): Option[String] = None

  /** The tables of the namespace. */
  def tables(): Seq[String]

  /** Returns the rows of a table, as it is now. */
  def read(session: SparkSession, table: String): DataFrame

  /** Returns the rows of a table as they were when [[version]] gave a version. */
  def readVersion(session: SparkSession, table: String, version: String): DataFrame

  def properties(table: String): Map[String, String]

  /** The names of the columns of a table, also of those that the source does not have. */
  def columns(table: String): Seq[String]

  /**
   * Makes an empty table, and the namespace if it is missing. The columns get the types that
   * [[TargetTypes]] gives.
   *
   * @param key the columns by which rows are found, for clustering
   * @param properties properties of the table, which win over those that make MERGE cheap
   */
  def create(
      table: String,
      schema: StructType,
      key: Seq[String],
      properties: Map[String, String]
  ): Unit

  /** Sets properties of a table, in one commit. */
  def setProperties(table: String, properties: Map[String, String]): Unit

  /** Arranges a table by its key, for what is written from then on. */
  def arrange(table: String, schema: StructType, key: Seq[String]): Unit

  /** Adds, renames or widens columns, in one commit each. What is there already is left out. */
  def alter(table: String, changes: Seq[ColumnChange]): Unit

  /**
   * Reads the mark of a table.
   *
   * @return None if no commit has written a mark of this name
   * @throws LakeException if the rows are older than the mark, because of a RESTORE or a rollback
   */
  def mark(table: String, name: MarkName): Option[Long]

  /** Returns the newest generation of a source table's copies that has a mark in the table. */
  def generation(table: String, job: String, oid: Long): Option[Int]

  /** Returns the mark of a job with the greatest generation, of whichever source table. */
  def newest(table: String, job: String): Option[MarkName]

  /** Returns what changes with each commit to a table. */
  def version(table: String): String

  /** Removes a table and its files, if it is there. */
  def drop(table: String): Unit

  /**
   * Writes in one atomic commit that has the mark `lsn`, and reads the mark back.
   *
   * @param session
   *   a session of the caller's own, on which the rows are made too. The mark is one of its settings.
   * @param expected
   *   the mark that the table has. If it has another one when the commit is made, another job writes
   *   the table, and this is an error.
   * @throws CommitConflict
   *   if somebody else wrote the table, for example a compaction, and the mark is still the one expected
   * @throws LakeException
   *   if another process of the job wrote the table, or copied it again. Nothing of this commit is in it.
   */
  def commit(
      session: SparkSession,
      table: String,
      name: MarkName,
      expected: Option[Long],
      lsn: Long
  )(write: TargetWrite): Unit
}

/** One way to change the rows of a table. */
sealed trait TargetWrite

object TargetWrite {

  /** Appends rows. */
  final case class Append(rows: DataFrame) extends TargetWrite

  /**
   * Replaces rows.
   *
   * @param where
   *   which ones, as an SQL condition; all by default. Iceberg needs one that is true or false for all
   *   rows of a file, by the least and the greatest value of a column.
   */
  final case class Overwrite(rows: DataFrame, where: String = "true") extends TargetWrite

  /**
   * Replaces all rows, and makes the columns fit: those of the rows get their types. Other columns stay,
   * and are NULL.
   */
  final case class Replace(rows: DataFrame) extends TargetWrite

  /**
   * Runs `MERGE INTO <table> AS t USING <rows> AS s ON <condition> <clauses>`.
   *
   * @param rows the rows, which must be the same each time they are computed
   * @param clauses the WHEN clauses
   * @param narrowed
   *   a condition that the columns of `t` must fulfill too. It is true for each row that `condition`
   *   finds, so it changes nothing but what is read.
   */
  final case class Merge(
      rows: DataFrame,
      condition: String,
      clauses: String,
      narrowed: Option[Column] = None
  ) extends TargetWrite
}

/** A change of a table's columns that loses nothing. */
sealed trait ColumnChange

object ColumnChange {
  final case class Add(name: String, dataType: org.apache.spark.sql.types.DataType)
      extends ColumnChange
  final case class Rename(from: String, to: String) extends ColumnChange
  final case class Widen(name: String, dataType: org.apache.spark.sql.types.DataType)
      extends ColumnChange
}
