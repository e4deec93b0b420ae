package io.sparkpgoutput.lake.faults

import io.sparkpgoutput.lake.state.{KeptState, TableState, TableStatus, TargetMarks}
import io.sparkpgoutput.lake.status.JobLog
import io.sparkpgoutput.lake.target.Target

/** Stops one table, and not the job, if the option `onTableError` says so. */
private[lake] object StoppedTable {

  /** Writes the error to the properties of the table and to the state, which the caller saves. */
  def stop(
      table: TableState,
      error: Throwable,
      target: Target,
      state: KeptState,
      log: JobLog
  ): Unit = {
    log.warn(s"The table ${table.target} is stopped. ${error.getMessage}")
    TargetMarks.stop(state.job, target, table, error.getMessage)
    state.put(table.copy(status = TableStatus.Stopped(error.getMessage)))
  }
}
