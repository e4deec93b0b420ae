package io.sparkpgoutput.source.session

import org.apache.spark.{TaskContext, TaskKilledException}

/** Ends the wait of a task that Spark has killed. Spark does not always interrupt its thread. */
object KilledTask {

  /** Throws `TaskKilledException` if this thread runs a task that was killed. */
  def check(): Unit =
    if (Option(TaskContext.get()).exists(_.isInterrupted())) throw new TaskKilledException
}
