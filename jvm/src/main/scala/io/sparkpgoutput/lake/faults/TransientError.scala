package io.sparkpgoutput.lake.faults

import org.apache.spark.SparkThrowable

import io.sparkpgoutput.errors.ErrorCauses
import io.sparkpgoutput.lake.copy.CopyError
import io.sparkpgoutput.lake.target.CommitConflict

/** Tells errors that pass by themselves from those that do not. */
object TransientError {

  /** Classes of SQLSTATEs: connections, resources that the server lacks, and the end of a session. */
  private val States = Set("08", "53", "57P")
  private val LostTasks =
    Seq("ExecutorLostFailure", "Executor heartbeat timed out", "Checkpoint block")

  def unapply(error: Throwable): Option[Throwable] = ErrorCauses.of(error).find {
    case _: CommitConflict => true
    case known: SparkThrowable if known.getCondition == "PGOUTPUT_CONNECTION" =>
      States.exists(known.getSqlState.startsWith)
    // A statement such as TRUNCATE came between. The next attempt has a newer snapshot.
    case known: SparkThrowable if known.getCondition == CopyError.Interrupted => true
    case other => LostTasks.exists(text => Option(other.getMessage).exists(_.contains(text)))
  }
}
