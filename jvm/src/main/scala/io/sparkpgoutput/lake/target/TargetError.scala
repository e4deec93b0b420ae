package io.sparkpgoutput.lake.target

import io.sparkpgoutput.errors.PgOutputException
import io.sparkpgoutput.lake.{LakeError, LakeException}
import io.sparkpgoutput.protocol.Lsn

/**
 * Something else than another job wrote the table during a commit, for example a compaction. Nothing of
 * the commit is in the table, and it can be tried again.
 */
final class CommitConflict(table: String, reason: Throwable)
    extends PgOutputException(
      "PGOUTPUT_COMMIT_CONFLICT",
      "40001",
      s"Something else wrote the table $table during the commit, for example a compaction. Nothing of the " +
        s"commit is in the table, and the job tries it again. The format says: ${reason.getMessage}"
    ) {
  initCause(reason)
}

/** The errors of tables in Delta and Iceberg. */
object TargetError {
  final val Format = "PGOUTPUT_TARGET_FORMAT"
  final val MarkLost = "PGOUTPUT_MARK_LOST"

  def otherJob(table: String, expected: Option[Long], found: Option[Long]): LakeException = {
    def shown(mark: Option[Long]) = mark.fold("no mark")(lsn => s"the mark ${Lsn.format(lsn)}")
    new LakeException(
      LakeError.OtherJob,
      "55006",
      s"The table $table has ${shown(found)} and had ${shown(expected)} before, so another process " +
        "of the job writes it. This process has changed nothing since then. Stop one of the two."
    )
  }

  def copiedAgain(table: String): LakeException = new LakeException(
    LakeError.OtherJob,
    "55006",
    s"The table $table was copied again, so another process of the job writes it. This process has " +
      "changed nothing since then. Stop one of the two."
  )

  def notCurrent(table: String): LakeException = new LakeException(
    Format,
    "0A000",
    s"The rows for the table $table would not be in its current snapshot, because of spark.wap.id or " +
      "spark.wap.branch. Nothing was written. Unset these settings in the session of the job."
  )

  def restored(table: String, how: String): LakeException = new LakeException(
    MarkLost,
    "55000",
    s"The table $table has older rows than its mark says, because of $how. The job copies it again."
  )

  def format(problem: String): LakeException =
    new LakeException(Format, "0A000", problem)

  def otherFormat(table: String, wanted: String): LakeException = format(
    s"The table $table is not a table of $wanted, so the job does not write it. Remove it, or give the table " +
      "of the server another name by the option names."
  )

  def notWritable(table: String, problem: Throwable): LakeException = {
    val error = new LakeException(
      "PGOUTPUT_TARGET_NOT_WRITABLE",
      "42501",
      s"The job cannot make the table $table. Give the job the right to write in the target, or name " +
        s"another target. The reason is: ${problem.getMessage}"
    )
    error.initCause(problem)
    error
  }

  def name(problem: String): LakeException =
    new LakeException("PGOUTPUT_TARGET_NAME", "42602", problem)

  def columnType(problem: String): LakeException =
    new LakeException("PGOUTPUT_TARGET_TYPE", "42804", problem)
}
