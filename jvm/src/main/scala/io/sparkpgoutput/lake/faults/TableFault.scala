package io.sparkpgoutput.lake.faults

import org.apache.spark.sql.AnalysisException

import io.sparkpgoutput.errors.{ErrorCauses, PgOutputException}
import io.sparkpgoutput.lake.LakeError
import io.sparkpgoutput.source.SourceException

/**
 * Tells the errors that concern one table from those that end the job. Only the former may stop a table
 * for good, so an error that nobody knows ends the job: the end of a session, for example, fails all
 * commits that are under way.
 */
object TableFault {
  def is(error: Throwable): Boolean =
    TransientError.unapply(error).isEmpty &&
      ErrorCauses.of(error).map(concernsTable).collectFirst { case Some(found) => found }
        .contains(true)

  /** None if an error by itself does not tell. */
  private def concernsTable(error: Throwable): Option[Boolean] = error match {
    case _: SourceException                   => Some(false)
    case other if LakeError.isOtherJob(other) => Some(false)
    case _: PgOutputException                 => Some(true)
    // With a cause, it is an error of a catalog, such as a Hive metastore that does not answer.
    case found: AnalysisException if found.getCause == null => Some(true)
    case _                                                  => None
  }
}
