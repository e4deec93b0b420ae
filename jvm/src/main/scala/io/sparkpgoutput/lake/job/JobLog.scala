package io.sparkpgoutput.lake.job

import java.util.concurrent.ConcurrentLinkedQueue

import org.apache.spark.internal.Logging

/** What a job tells its user, one line for each copy and micro-batch. */
final class JobLog extends Logging {
  private val lines = new ConcurrentLinkedQueue[String]

  def tell(line: String): Unit = {
    logInfo(line)
    add(line)
  }

  def warn(line: String): Unit = {
    logWarning(line)
    add(s"WARNING: $line")
  }

  private def add(line: String): Unit = {
    lines.add(line)
    // Nobody need take them.
    if (lines.size > JobLog.MostLines) lines.poll()
  }

  /** Returns the lines since the last call. */
  def take(): Seq[String] = Iterator.continually(lines.poll()).takeWhile(_ != null).toSeq
}

private object JobLog {
  private val MostLines = 1000
}
