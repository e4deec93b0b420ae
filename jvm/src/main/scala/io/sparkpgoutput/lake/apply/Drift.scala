package io.sparkpgoutput.lake.apply

import scala.annotation.tailrec

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.errors.PgOutputException
import io.sparkpgoutput.lake.ApplyError
import io.sparkpgoutput.lake.target.TablePlace

/**
 * A difference between the target and what the changes say was there. An expression in a task finds it
 * and fails; the driver finds the text in the error that Spark gives for the task.
 */
object Drift {

  /** A row is inserted that is there. */
  final val There = "is there already, and the server inserts it"

  /** A row is changed that is not there. */
  final val Missing = "is not there, and the server updates or deletes it"

  /** A row has fewer copies than have gone. */
  final val Fewer = "has fewer copies than the server deletes"

  private val Begin = "<pgoutput_drift "

  /** How Spark begins the error. The text of a plan, in another error, has the expression only. */
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
   * The error of a table: that of this project which Spark's error has among its causes, or that an
   * expression of [[raise]] made; else the error itself.
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
