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
    s"The copy of the table $table cannot go on: $reason Nothing is written. Start the copy again."
  )

  /** A standby can be behind what the stream has read already. */
  def olderSnapshot(table: TableName): LakeException =
    interrupted(table, "its snapshot is older than the stream, because the server is a standby.")

  /** @param what the column, the value and what is wrong with it */
  def invalid(what: String, table: TableName, column: String): InvalidValueException =
    new InvalidValueException(
      s"in the copy of the table $table, $what. To take every value, set the option " +
        s"types.$table.$column=STRING."
    )
}
