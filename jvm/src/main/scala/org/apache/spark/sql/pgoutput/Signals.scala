package org.apache.spark.sql.pgoutput

import org.apache.spark.util.SignalUtils

/**
 * Runs an action when a signal is to end this process, and before the JVM begins to shut down. This
 * object is in this package because Spark's handler of signals is `private[spark]`.
 */
object Signals {
  def beforeExit(action: => Unit): Unit =
    for (signal <- Seq("TERM", "INT", "HUP"))
      SignalUtils.register(signal) {
        action
        false // The signal is not handled, so the process ends.
      }
}
