package io.sparkpgoutput.lake.apply

import scala.annotation.tailrec

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.errors.PgOutputException
import io.sparkpgoutput.lake.ApplyError
import io.sparkpgoutput.lake.target.TablePlace

/**
 * A difference between the rows of the target and the rows that the changes expect there. An
 * expression in a task finds it and fails. The driver finds the text in the error that Spark gives
 * for the task.
 */
object Drift {

  /** A change inserts a row that is in the target. */
  final val There = "is there already, and the server inserts it"

  /** A change updates or deletes a row that is not in the target. */
  final val Missing = "is not there, and the server updates or deletes it"

  /** The changes delete more copies of a row than the target has. */
  final val Fewer = "has fewer copies than the server deletes"

  private val Begin = "<pgoutput_drift "

  /**
   * The words with which Spark begins the error of a task. Other errors can quote a plan, which has
   * the expression but not these words.
   */
  private val Raised = s"[USER_RAISED_EXCEPTION] $Begin"
  private val End = " pgoutput_drift>"
  private val MaxKey = 300

  /**
   * The SQL expression that fails.
   *
   * @param columns SQL expressions and the names of the columns that show which row it is
   */
  def raise(problem: String, columns: Seq[(String, String)]): String = {
    val struct = columns.map { case (value, name) =>
      s"$value AS ${TablePlace.quoted(name)}"
    }.mkString(", ")
    s"raise_error(concat('${Begin}the row ', left(to_json(struct($struct)), $MaxKey), ' $problem$End'))"
  }

  /**
   * Returns the error of a table. If the causes of Spark's error include an error of this project
   * or one of an expression of [[raise]], it is that one. Otherwise it is the error itself.
   */
  @tailrec
  def error(table: TableName, thrown: Throwable, cause: Throwable): Throwable = {
    val text = Option(cause).flatMap(found => Option(found.getMessage)).getOrElse("")
    val start = text.indexOf(Raised)
    val end = text.indexOf(End, start)
    cause match {
      case null                     => thrown
      case known: PgOutputException => known
      case _ if start >= 0 && end > start =>
        val problem = text.substring(start + Raised.length, end)
        ApplyError.targetDiffers(table, problem).initCause(thrown)
      case _ => error(table, thrown, cause.getCause)
    }
  }
}
