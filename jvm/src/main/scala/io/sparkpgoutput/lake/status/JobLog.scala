package io.sparkpgoutput.lake.status

import java.time.{Duration, Instant}
import java.util.concurrent.{ConcurrentHashMap, ConcurrentLinkedQueue}

import scala.jdk.CollectionConverters._

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.util.DateTimeUtils.microsToInstant

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.lake.copy.{CopyProgress, TableCopy}
import io.sparkpgoutput.lake.core.TableFailure

/**
 * The lines that a job prints for its user: one for each copy and each commit, and the progress of
 * the copies.
 */
final class JobLog extends Logging {
  private val lines = new ConcurrentLinkedQueue[String]
  private val copies = ConcurrentHashMap.newKeySet[TableCopy]

  def tell(line: String): Unit = {
    logInfo(line)
    add(line)
  }

  def warn(line: String): Unit = {
    logWarning(line)
    add(s"WARNING: $line")
  }

  /** Tells of a commit. The lines of small commits that follow each other are one line for each table. */
  def committed(table: TableName, changes: Long, lastCommit: Long, started: Long): Unit = {
    val lag = Duration.between(microsToInstant(lastCommit), Instant.now).toMillis / 1e3
    val seconds = (System.nanoTime() - started) / 1e9
    tell(f"$table: $changes%,d changes in $seconds%.1f s, lag $lag%.1f s.")
  }

  /** What was told last of each table that cannot go on. */
  private val problems = new ConcurrentHashMap[TableName, String]

  /**
   * Tells why a table cannot go on. The same reason is told once.
   *
   * @param unknown an error that nobody knows, whose stack Spark's log gets
   */
  def failed(table: TableName, failure: TableFailure, unknown: Option[Throwable] = None): Unit =
    if (problems.put(table, failure.text) != failure.text) {
      val what = failure.kind match {
        case TableFailure.Waits   => s"The table $table waits, and the job tries again."
        case TableFailure.Changed => s"The table $table is copied while the job goes on."
        case TableFailure.Passing => s"The table $table has failed, and the job tries again."
        case TableFailure.Lasting => s"The table $table has failed. Other tables go on."
      }
      warn(s"$what ${failure.text}")
      unknown.foreach(logError(s"The table $table has met an error of another library", _))
    }

  /** Tells why a table cannot be copied. */
  def refused(table: TableName, problem: String): Unit =
    failed(table, TableFailure(TableFailure.Lasting, problem))

  /** Forgets the problem of a table that goes on. */
  def goesOn(table: TableName): Unit = problems.remove(table): Unit

  private def add(line: String): Unit = {
    lines.add(line)
    // Nobody need take them.
    if (lines.size > JobLog.MostLines) lines.poll()
  }

  /** Runs a copy, and reports its progress meanwhile. */
  def watching[T](copy: TableCopy)(body: => T): T = {
    copies.add(copy)
    try body
    finally copies.remove(copy): Unit
  }

  /** Returns the progress of the copies that run. */
  def progress: Seq[CopyProgress] = copies.asScala.toSeq.map(_.progress).sortBy(_.table)

  /** Returns the lines since the last call. */
  def take(): Seq[String] = Iterator.continually(lines.poll()).takeWhile(_ != null).toSeq
}

private object JobLog {
  private val MostLines = 1000
}
