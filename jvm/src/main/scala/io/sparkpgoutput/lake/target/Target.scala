package io.sparkpgoutput.lake.target

import java.time.Instant

import org.apache.spark.sql.types.{DataType, StructType}
import org.apache.spark.sql.{Column, DataFrame, SparkSession}

import io.sparkpgoutput.errors.{LakeException, PgOutputException}
import io.sparkpgoutput.lake.catalog.TableShape
import io.sparkpgoutput.lake.core.MarkName
import io.sparkpgoutput.lake.direct.{DirectChange, DirectTable, TableFiles}
import io.sparkpgoutput.protocol.Lsn

/**
 * The tables of Delta or Iceberg that a job writes: a namespace of a catalog, or a folder of Delta tables. A method
 * takes the name of a table without its namespace and without quotes. This head argues why '''the commit with its
 * mark''' writes each change once.
 *
 * {{{
 *   rows of a cut or a copy ──┐
 *                             ├──► one atomic commit, if the table has the expected mark of this generation,
 *   mark: generation g, LSN ──┘    and no mark of a greater generation
 * }}}
 *
 * A ''cut'' is the first part of the queue of a table: whole transactions that one commit writes. A ''generation'' is
 * the number of a copy. A ''direct commit'' writes data files without a query of Spark
 * ([[io.sparkpgoutput.lake.direct.DirectTable]]). It returns only when the format has confirmed it, so the job reads
 * its mark back only after an error. After a commit by a query, the job always reads the mark back.
 *
 * '''What a mark says.''' The table has each transaction of the server with a commit LSN below the mark, and no change
 * of a later one. The mark and the rows are in the same commit, so a reader, a crash or a lost answer never separates
 * them. Delta has the mark as the version of an application's transaction (`txn`), and again in the `userMetadata` of
 * the commit, because a RESTORE keeps the first one. Iceberg has it in the summary of the snapshot and in a property of
 * the table ([[IcebergMark]]).
 *
 * '''Why no cut is written twice, and none on other rows.''' A commit expects the mark that the job knows of the
 * table, leaves out the changes below it, and leaves the end of the cut as the mark. It compares the mark of the
 * version that it replaces. If a process was suspended and another one has gone on, the table has another mark. The
 * commit fails, and the table stays as it is. A copy has a new generation. It expects that the table has no mark of
 * this generation. From then on, a process that knows only an older generation cannot commit
 * ([[io.sparkpgoutput.lake.core.MarkName]]).
 *
 * '''What a crash between the commits of two tables leaves.''' The tables have different marks, and each is right as of
 * its own mark. The next start reads the marks, and accepts each mark that is not lower than in the state
 * ([[io.sparkpgoutput.lake.core.JobStart]]). The server sends everything from the confirmed LSN on again, and each
 * table takes what is not below its mark. A mark can be below the confirmed LSN, if the table had no changes since.
 * Nothing is missing then. Each change that is not committed holds back the confirmed LSN, or its table is copied. A
 * transaction that changes several tables is whole in each of them, and readers can see it in one table before another.
 * A mirror and its history are two such tables: see [[io.sparkpgoutput.lake.job.TableApplier]].
 *
 * '''If the outcome of a commit is unknown''', because the answer of a store or a catalog was lost, the mark decides:
 * it is read again, and if it is the new one, the commit was made. Compactions and other commits keep the
 * mark. A RESTORE or a rollback brings back older rows. It can bring back the older mark too, or keep the newer one.
 * The job notices both cases, and copies the table.
 */
trait Target {

  /** The name of the format in SQL: `delta` or `iceberg`. */
  def format: String

  /** The name of a table in SQL, quoted. */
  def sqlName(table: String): String

  def exists(table: String): Boolean

  /** Returns why no table is found at present, although nobody may have removed one. */
  def absence: Option[String] = None

  /** Returns why a table cannot have a name, or None if it can. */
  def nameProblem(name: String): Option[String] = None

  /** Returns why a column cannot have a name, or None if it can. */
  def columnProblem(name: String): Option[String] = None

  /** The tables of the namespace. */
  def tables(): Seq[String]

  /** Looks at a table before a cut. Another writer can have changed it since. */
  def look(table: String): TargetLook

  /**
   * Rewrites small files, and files with many deleted rows. One thread calls it, beside [[commit]].
   *
   * @return whether files were rewritten
   */
  def compact(table: String): Boolean

  /** Returns whether a query writes a table. During this time, no rewrite begins. */
  def isQueried(table: String): Boolean = false

  /**
   * Reads and keeps the keys that a direct write of the last cut lacked, if the cache has room for them. The thread
   * that calls [[compact]] calls it.
   */
  def keepKeys(table: String): Unit = ()

  /** Forgets what is known of the files of all tables but some. */
  def forgetOthers(tables: Set[String]): Unit = ()

  /** Returns the numbers of the files of a table; None if this process does not know them. */
  def files(table: String): Option[TableFiles] = None

  /** Writes a checkpoint of a table, if one is due, so that it opens fast. */
  def checkpoint(table: String): Unit

  /**
   * Forgets old versions of a table, with their files.
   *
   * @param since the versions that ended before this time are removed
   * @param versions the most versions that stay
   * @return why the table keeps its old versions; None if they are removed when it is time
   */
  def expire(table: String, since: Instant, versions: Int): Option[String]

  /**
   * Removes files in the folder of a table that no version needs, for example those of an interrupted commit.
   *
   * @param before a file that is not older stays, because a commit of another process can need it
   * @return why such files stay; None if they are removed
   */
  def removeOrphans(table: String, before: Instant): Option[String]

  /** Returns who maintains the tables in place of the job. */
  def maintainer: Option[String] = None

  /** Returns the rows of a table, as it is now. */
  def read(session: SparkSession, table: String): DataFrame

  /** Returns the rows of a table as they were when [[version]] gave a version. */
  def readVersion(session: SparkSession, table: String, version: String): DataFrame

  def properties(table: String): Map[String, String]

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
      properties: Map[String, String],
      shape: TableShape = TableShape.none
  ): Unit

  /** Sets properties of a table, in one commit. */
  def setProperties(table: String, properties: Map[String, String]): Unit

  /** Arranges a table by its shape or else by its key, for what is written from then on. */
  def arrange(table: String, schema: StructType, key: Seq[String], shape: TableShape): Unit

  /** Gives a table another shape, and keeps its rows. Delta rewrites them if the partitions change. */
  def reshape(table: String, shape: TableShape): Unit

  /** Returns why a column of a table cannot change, or None if it can. A new copy can change it. */
  def alterProblem(table: String, change: ColumnChange): Option[String] = None

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

  /** Returns the mark of a job with the greatest generation, for any source table. */
  def newest(table: String, job: String): Option[MarkName]

  /** Returns what changes with each commit to a table. */
  def version(table: String): String

  /** Removes a table and its files, if it is there. */
  def drop(table: String): Unit

  /**
   * Writes in one atomic commit that has the mark `lsn`. After a commit by a query, or after an error, it reads the
   * mark back.
   *
   * @param session
   *   a session of the caller's own, on which the rows are made too. The mark is one of its settings.
   * @param expected
   *   the mark that the table has. If it has another one when the commit is made, another process or job writes
   *   the table, and this is an error.
   * @throws PgOutputException
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

/**
 * What is known of a table.
 *
 * @param schema all columns, including columns of users
 * @param notDirect why cuts are written by a MERGE; None if they are written directly
 */
final case class TargetLook(schema: StructType, notDirect: Option[String])

/** One way to change the rows of a table. */
sealed trait TargetWrite

object TargetWrite {

  /** A write by a query of Spark. */
  sealed trait Query extends TargetWrite

  /** Appends rows. */
  final case class Append(rows: DataFrame) extends Query

  /** Replaces all rows. */
  final case class Overwrite(rows: DataFrame) extends Query

  /**
   * Replaces all rows, and makes the columns fit: the columns of the rows get their types. Other columns
   * stay, and are NULL.
   *
   * @param shape the shape that the table gets; None if the options have never given it one
   */
  final case class Replace(rows: DataFrame, shape: Option[TableShape]) extends Query

  /**
   * Deletes rows and adds others. See [[DirectTable]].
   *
   * @param change what to change in a version of the table. It is called again after a conflict.
   */
  final case class Direct(change: DirectTable => DirectChange) extends TargetWrite

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
  ) extends Query
}

/** A change of a table's columns that loses nothing. */
sealed trait ColumnChange {

  /** What users read. */
  def text: String
}

object ColumnChange {
  final case class Add(name: String, dataType: DataType) extends ColumnChange {
    override def text: String = s"the column '$name' of the type ${dataType.sql} is new"
  }
  final case class Rename(from: String, to: String) extends ColumnChange {
    override def text: String = s"the column '$from' has the name '$to' now"
  }
  final case class Widen(name: String, dataType: DataType) extends ColumnChange {
    override def text: String = s"the column '$name' has the type ${dataType.sql} now"
  }
}

/** The errors of tables in Delta and Iceberg that are made in several places. */
object TargetError {

  def copiedAgain(table: String): LakeException =
    new LakeException("PGOUTPUT_OTHER_JOB.COPIED_AGAIN", "table" -> table)

  def otherMark(table: String, expected: Option[Long], found: Option[Long]): LakeException = {
    def shown(mark: Option[Long]) = mark.fold("no mark")(lsn => s"the mark ${Lsn.format(lsn)}")
    new LakeException(
      "PGOUTPUT_OTHER_JOB.OTHER_MARK",
      "table" -> table,
      "found" -> shown(found),
      "expected" -> shown(expected)
    )
  }

  /** @param what what could not be made */
  def notWritable(what: String, problem: Throwable): Throwable =
    new LakeException(
      "PGOUTPUT_TARGET_NOT_WRITABLE",
      "what" -> what,
      "reason" -> problem.getMessage
    ).initCause(problem)

  /** @param reason what has brought older rows back */
  def olderRows(table: String, reason: String): LakeException =
    new LakeException("PGOUTPUT_MARK_LOST.OLDER_ROWS", "table" -> table, "reason" -> reason)

  /**
   * Something else than another job wrote the table during a commit, for example a compaction. Nothing of
   * the commit is in the table, and it can be tried again.
   */
  def conflict(table: String, reason: Throwable): Throwable =
    new PgOutputException(
      "PGOUTPUT_COMMIT_CONFLICT",
      "table" -> table,
      "reason" -> reason.getMessage
    ).initCause(reason)
}
