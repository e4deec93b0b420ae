package io.sparkpgoutput.lake.target

import java.lang.ref.SoftReference
import java.time.{Duration, Instant}
import java.util.concurrent.ConcurrentLinkedQueue

import scala.util.Try

import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.pgoutput.RowsOfRdd
import org.apache.spark.sql.types.{DataType, StructField, StructType}
import org.apache.spark.sql.{DataFrame, SparkSession, functions}

import io.sparkpgoutput.errors.{ErrorCauses, LakeException, PgOutputException}
import io.sparkpgoutput.lake.catalog.TableShape
import io.sparkpgoutput.lake.core.MarkName
import io.sparkpgoutput.lake.direct.{
  Compaction,
  DirectChange,
  DirectTable,
  KeyLookup,
  NotDirect,
  Rewrite,
  TableFiles,
  TableKeys
}

/** The commands of a target that run as SQL, and that are the same for both formats. */
abstract class TableCommands(session: SparkSession, tableFormat: LakeFormat, place: TablePlace)
    extends Target {
  import TableCommands._

  final def format: String = tableFormat.name

  final def sqlName(table: String): String = place.sqlName(table)

  final def exists(table: String): Boolean = place.exists(table)

  final override def absence: Option[String] = place.absence

  final def tables(): Seq[String] = place.tables()

  final def drop(table: String): Unit = place.drop(table)

  final override def nameProblem(name: String): Option[String] = place.nameProblem(name)

  final protected def otherFormat(table: String): LakeException = new LakeException(
    "PGOUTPUT_TARGET_FORMAT.OTHER_FORMAT",
    "table" -> sqlName(table),
    "format" -> tableFormat
  )

  final def readVersion(session: SparkSession, table: String, version: String): DataFrame =
    if (version.isEmpty) read(session, table).limit(0)
    else {
      refresh(session, table)
      // Delta refuses a version that is older than a property says. During a verification, the job keeps its files.
      session.conf.set(
        "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration",
        false
      )
      session.sql(s"SELECT * FROM ${sqlName(table)} VERSION AS OF $version")
    }

  /**
   * Returns the time before which versions are removed: the later one of the two.
   *
   * @param since the time from which on versions stay
   * @param oldest
   *   the time of the oldest version that the greatest number of versions allows; None if there are fewer versions
   */
  final protected def retained(since: Instant, oldest: Option[Instant]): Instant =
    (oldest.toSeq :+ since).max

  /** Returns the names of the marks of a table, and other names. */
  protected def markNames(table: String): Iterable[String]

  final def generation(table: String, job: String, oid: Long): Option[Int] =
    MarkName.newest(markNames(table), job, oid)

  final def newest(table: String, job: String): Option[MarkName] =
    MarkName.newest(markNames(table), job)

  /** Lets the next query see what others committed. */
  protected def refresh(session: SparkSession, table: String): Unit

  /**
   * The properties that each table gets if the user gives no other values.
   *
   * @param chosen the properties that the user gives
   */
  protected def defaults(schema: StructType, chosen: Map[String, String]): Map[String, String]

  /** Lets a table have columns of types that it was made without. */
  protected def allowTypes(table: String, schema: StructType): Unit

  /**
   * Makes a table, which does not exist.
   *
   * @param columns the columns, with the types of the format
   */
  protected def make(
      table: String,
      columns: StructType,
      key: Seq[String],
      properties: Map[String, String],
      shape: TableShape
  ): Unit

  final def create(
      table: String,
      schema: StructType,
      key: Seq[String],
      properties: Map[String, String],
      shape: TableShape
  ): Unit = {
    val columns = TargetTypes.of(format, table, schema, key)
    place.prepare(table)
    make(table, columns, key, defaults(columns, properties) ++ properties, shape)
  }

  final protected def alter(table: String, clause: String): Unit =
    session.sql(s"ALTER TABLE ${sqlName(table)} $clause"): Unit

  final def setProperties(table: String, properties: Map[String, String]): Unit =
    alter(table, s"SET TBLPROPERTIES (${TableProperties.sql(properties)})")

  /**
   * Changes the columns, and leaves out a change that was made already. So an interrupted change
   * can be repeated.
   */
  final def alter(table: String, changes: Seq[ColumnChange]): Unit = changes.foreach { change =>
    val columns = read(session, table).schema
    def has(name: String) = columns.exists(_.name.equalsIgnoreCase(name))
    def inTarget(name: String, dataType: DataType) =
      TargetTypes.of(format, table, new StructType().add(name, dataType), Nil)
    val command = change match {
      case ColumnChange.Add(name, dataType) =>
        val added = inTarget(name, dataType)
        Option.when(!has(name)) {
          allowTypes(table, added)
          s"ADD COLUMNS (${column(added.head)})"
        }
      case ColumnChange.Rename(from, to) =>
        Option.when(has(from))(
          s"RENAME COLUMN ${TablePlace.quoted(from)} TO ${TablePlace.quoted(to)}"
        )
      case ColumnChange.Widen(name, dataType) =>
        val wider = inTarget(name, dataType).head.dataType
        Option.when(!columns.exists(of => of.name.equalsIgnoreCase(name) && of.dataType == wider))(
          s"ALTER COLUMN ${TablePlace.quoted(name)} TYPE ${wider.sql}"
        )
    }
    command.foreach(alter(table, _))
  }

  /** Returns what direct commits know of the files of a table; None before the first one. */
  protected def directCommits(table: String): Option[DirectCommits[_, _]]

  /** Runs a query that writes a table. During this time, no direct commit rewrites its files. */
  protected def whileQueried(table: String)(run: => Unit): Unit

  final override def files(table: String): Option[TableFiles] =
    directCommits(table).flatMap(_.tableFiles)

  /** Commits without a query. After a conflict, the caller calls it again, and the lookup begins again. */
  protected def direct(commit: MarkedCommit)(change: DirectTable => DirectChange): Unit

  /** Returns whether an error of the format says that somebody else has committed at the same time. */
  protected def isConflict(problem: Throwable): Boolean

  /** Returns whether another writer has prevented a direct commit or a rewrite. */
  protected def isOvertaken(problem: Exception): Boolean = isConflict(problem)

  /** Rewrites files. Returns whether there were any. */
  protected def rewrite(table: String): Boolean

  /**
   * Another writer wins against a rewrite, which is tried again later. While a query writes the table, no rewrite
   * begins, because it would wait for the end of the query, and the rewrites of all other tables with it.
   */
  final def compact(table: String): Boolean =
    try !isQueried(table) && rewrite(table)
    catch {
      case _: NotDirect                               => false
      case problem: Exception if isOvertaken(problem) => false
    }

  final override def isQueried(table: String): Boolean = directCommits(table).exists(_.isQueried)

  /**
   * Commits by a query of Spark.
   *
   * @throws PgOutputException
   *   if another writer has prevented that, and the format has the same class of errors also for other causes
   */
  protected def query(session: SparkSession, commit: MarkedCommit, write: TargetWrite.Query): Unit

  private def write(session: SparkSession, commit: MarkedCommit, write: TargetWrite): Unit =
    write match {
      case TargetWrite.Direct(change) => attempt(commit, change, Attempts)
      case other: TargetWrite.Query   => whileQueried(commit.table)(query(session, commit, other))
    }

  final def commit(
      session: SparkSession,
      table: String,
      name: MarkName,
      expected: Option[Long],
      lsn: Long
  )(rows: TargetWrite): Unit = {
    val commit = MarkedCommit(table, name, expected, lsn)
    try {
      rows match {
        case TargetWrite.Replace(rows, _) => allowTypes(table, rows.schema)
        case _                            => ()
      }
      write(session, commit, rows)
    } catch {
      case problem: NotDirect => throw problem // nothing is written
      case problem: Exception =>
        val found =
          try mark(table, name)
          catch { case another: Exception => problem.addSuppressed(another); throw problem }
        // The catalog's answer can be lost after a commit.
        if (!found.contains(lsn)) throw explained(commit, found, problem)
    }
    rows match {
      case TargetWrite.Direct(_) => () // It returns only after the format has confirmed the commit.
      case _ =>
        val found = mark(table, name)
        if (!found.contains(lsn)) throw TargetError.otherMark(sqlName(table), expected, found)
    }
  }

  /** The rows of a new copy, with a NULL for each of the other columns of the target. */
  final protected def withOthers(table: String, rows: DataFrame): DataFrame = {
    val others = CharVarcharUtils.getRawSchema(read(session, table).schema)
      .filterNot(field => rows.columns.exists(_.equalsIgnoreCase(field.name)))
      .map(field => StructField(field.name, field.dataType))
    val nulls = RowsOfRdd.withTexts(StructType(others)).map(field =>
      functions.lit(null).cast(field.dataType).as(field.name, field.metadata)
    )
    rows.select(functions.col("*") +: nulls: _*)
  }

  /** Runs a direct commit, and again after a conflict with another writer. The lookup then begins again. */
  private def attempt(
      commit: MarkedCommit,
      change: DirectTable => DirectChange,
      attempts: Int
  ): Unit =
    try direct(commit)(change)
    catch {
      case problem: Exception if isOvertaken(problem) =>
        if (attempts == 1) throw TargetError.conflict(sqlName(commit.table), problem)
        attempt(commit, change, attempts - 1)
    }

  private def explained(
      commit: MarkedCommit,
      found: Option[Long],
      problem: Exception
  ): Throwable = {
    val table = sqlName(commit.table)
    def newest = generation(commit.table, commit.name.job, commit.name.oid)
    def beside(error: LakeException) = {
      error.addSuppressed(problem)
      error
    }
    if (found != commit.expected) beside(TargetError.otherMark(table, commit.expected, found))
    else if (newest.exists(_ > commit.name.generation))
      beside(TargetError.copiedAgain(table))
    else {
      val causes = ErrorCauses.of(problem).toSeq
      // For example, a value does not fit. Spark wraps this error into a text about its tasks.
      causes.collectFirst { case known: PgOutputException => known }
        .orElse(DeltaPartitionText.error(table, problem))
        .getOrElse(if (causes.exists(isConflict)) TargetError.conflict(table, problem) else problem)
    }
  }
}

/**
 * A commit with a mark.
 *
 * @param expected the mark of this name that the table has
 * @param lsn the mark that it gets
 */
final case class MarkedCommit(table: String, name: MarkName, expected: Option[Long], lsn: Long) {

  /**
   * Returns why the commit cannot be made.
   *
   * @param sqlName the name of the table in SQL
   * @param names the names of the marks of the version that the commit replaces, and other names
   * @param found the mark of this version
   */
  def problem(
      sqlName: String,
      names: Iterable[String],
      found: => Option[Long]
  ): Option[LakeException] =
    if (name.isReplaced(names)) Some(TargetError.copiedAgain(sqlName))
    else Some(found).filter(_ != expected).map(TargetError.otherMark(sqlName, expected, _))
}

object TableCommands {

  /** How often a direct commit is tried while others write the table. */
  final private val Attempts = 5

  /** Returns a column as CREATE TABLE and ALTER TABLE have it. */
  private[target] def column(field: StructField): String =
    s"${TablePlace.quoted(field.name)} ${field.dataType.sql}"
}

/** The properties of tables, as SQL. */
object TableProperties {

  /** Delta forgets the mark of a table when it is older than this duration. */
  final val MarkExpiry = "delta.setTransactionRetentionDuration"

  /** The setting that gives new tables this property. */
  final val MarkExpiryDefault =
    "spark.databricks.delta.properties.defaults.setTransactionRetentionDuration"

  /** Returns the text between the parentheses of TBLPROPERTIES. */
  def sql(properties: Map[String, String]): String = properties.toSeq.sorted
    .map { case (name, value) => s"${Literal(name).sql} = ${Literal(value).sql}" }.mkString(", ")

  /** Returns whether Spark keeps a property for itself, such as the owner. Its parser decides that. */
  def isReserved(name: String): Boolean =
    Try(CatalystSqlParser.parsePlan(s"CREATE TABLE t TBLPROPERTIES (${sql(Map(name -> ""))})"))
      .isFailure
}

/**
 * Writes the files of commits, and removes the files of a commit that is not made.
 *
 * @tparam F a file
 */
abstract private[target] class CommitWriter[F] {
  private val newFiles = new ConcurrentLinkedQueue[F]

  protected def delete(file: F): Unit

  /** Notes a file of the next commit. */
  final protected def note(file: F): Unit = newFiles.add(file): Unit

  /** Runs a step before the commit, and removes the files after an error. */
  final def orRemoved[T](step: => T): T =
    try step
    catch {
      case problem: Throwable =>
        removeAll()
        throw problem
    }

  /**
   * Commits the files, and removes them if another writer has prevented the commit. After any other error they stay,
   * because the commit can have been made although its answer was lost.
   *
   * @param isPrevented whether an error says that the commit is not in the table
   */
  final def committing[T](isPrevented: Exception => Boolean)(commit: => T): T =
    try commit
    catch {
      case problem: Exception if isPrevented(problem) =>
        removeAll()
        throw problem
    } finally newFiles.clear()

  /** Removes the files of a commit that is not made. */
  final def removeAll(): Unit = {
    newFiles.forEach(file => Try(delete(file)): Unit)
    newFiles.clear()
  }
}

private[target] object DirectCommits {

  private val MostWaiting = Duration.ofSeconds(30)

  /** The most files of a table whose names are kept in memory. */
  final private val MostFiles = 20000L

  /** Returns why a table with so many files is not written directly. */
  def tooMany(files: Long): Option[String] =
    Option.when(files > MostFiles)(s"the table has more than $MostFiles files")
}

/**
 * What a target knows of the files of a table between direct commits.
 *
 * @param mostWaiting how long a rewrite waits for the end of a query
 * @tparam V a version of the table, as its format has it
 * @tparam F the list of the files of a version
 */
abstract private[target] class DirectCommits[V, F >: Null <: AnyRef](
    keys: TableKeys,
    mostWaiting: Duration = DirectCommits.MostWaiting
) {

  /**
   * A file needs some kilobytes, and a job has many tables, most of which have no commits for long. So the JVM forgets
   * lists that were not used for some time, the sooner the less memory is free.
   */
  @volatile private var reference = new SoftReference[F](null)

  /** The files of the last version that was looked at, unless the JVM has forgotten them. */
  protected def keptFiles: Option[F] = Option(reference.get)

  protected def keptFiles_=(files: Option[F]): Unit = reference = new SoftReference(files.orNull)

  @volatile private var counted = Option.empty[TableFiles]

  /** The number of files when they were all looked at the last time, or less. */
  protected var filesAtLook = 0L

  @volatile private var queried = false

  /** Whether a query writes the table. */
  final def isQueried: Boolean = queried

  /**
   * Runs a query. During this time, no rewrite is committed, because each of them could be a conflict for the query.
   */
  final def whileQueried(run: => Unit): Unit = {
    synchronized { queried = true }
    try run
    finally synchronized {
        queried = false
        notifyAll()
      }
  }

  /**
   * Commits a rewrite. If a query writes the table, its end comes first. After some time, the rewrite is given up,
   * because the maintenance of all other tables waits for it.
   *
   * @return whether it was committed
   */
  final protected def afterQuery(giveUp: => Unit)(commit: => Boolean): Boolean = synchronized {
    val end = System.nanoTime() + mostWaiting.toNanos
    def left = (end - System.nanoTime()) / 1000000
    try while (queried && left > 0) wait(left)
    catch { case ended: InterruptedException => giveUp; throw ended }
    if (queried) giveUp
    !queried && commit
  }

  /** The numbers of the files and of their deleted rows; None before they are known. */
  def tableFiles: Option[TableFiles] = counted

  protected def count(files: Long, deletedRows: Long): Unit = counted = Some(
    counted.fold(TableFiles(files, deletedRows))(_.copy(files = files, deletedRows = deletedRows))
  )

  protected def countRewritten(rewrite: Rewrite): Unit = counted = counted.map { found =>
    val bytes = found.rewrittenBytes + rewrite.files.map(_.bytes).sum
    found.copy(rewrittenBytes = bytes, lastRewrite = Some(Instant.now))
  }

  /** Returns whether a version is written directly. */
  protected def isDirect(version: V): Boolean

  /** Returns a version for a lookup beside commits, and keeps its files. */
  protected def lookedUp(version: V): DirectTable

  /**
   * Returns whether there can be files to rewrite. To look at all files takes long, if a commit has not kept them.
   *
   * @param files the number of files
   */
  protected def mayBeDue(files: Long, areKept: Boolean): Boolean = {
    val isDue = areKept || Compaction.mayBeDue(files, filesAtLook)
    filesAtLook = if (isDue) files else math.min(filesAtLook, files)
    isDue
  }

  /**
   * Keeps the keys that the last lookup would have had to read from too many rows. Commits go on during this time.
   *
   * @param update returns the newest version
   */
  final def keepKeys(update: () => V): Unit = if (keys.areWanted && !isQueried) {
    val table = synchronized {
      val version = update()
      Option.when(isDirect(version))(lookedUp(version))
    }
    table.foreach(KeyLookup.keepWanted)
  }
}
