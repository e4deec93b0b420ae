package io.sparkpgoutput.lake.copy

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.errors.InvalidValueException
import io.sparkpgoutput.lake.LakeException

/** The errors of a first copy. */
object CopyError {
  final val Interrupted = "PGOUTPUT_COPY_INTERRUPTED"

  /**
   * The copy does not have all rows of its snapshot any more. It is never half written, and can be
   * started again.
   */
  def interrupted(table: TableName, reason: String): LakeException = new LakeException(
    Interrupted,
    "55000",
    s"The copy of the table $table was interrupted: $reason No row was written. The job tries again. If " +
      "it ends, start it again."
  )

  /** @param what the column, the value and what is wrong with it */
  def invalid(what: String, table: TableName, column: String): InvalidValueException =
    new InvalidValueException(
      s"The copy of the table $table has a value that does not fit: $what. To take every value, start the " +
        s"job with the option types.$table.$column=STRING."
    )
}
