package io.sparkpgoutput.lake.status

import java.util.concurrent.{ConcurrentHashMap, ConcurrentLinkedQueue}

import scala.jdk.CollectionConverters._

import org.apache.spark.internal.Logging

import io.sparkpgoutput.lake.copy.{CopyProgress, TableCopy}

/**
 * The lines that a job prints for its user: one for each copy and micro-batch, and the progress of
 * the copies.
 */
final class JobLog extends Logging {
  private val lines = new ConcurrentLinkedQueue[String]
  private val copies = ConcurrentHashMap.newKeySet[TableCopy]

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

  /** Runs a copy, and reports its progress meanwhile. */
  def watching[T](copy: TableCopy)(body: => T): T = {
    copies.add(copy)
    try body
    finally copies.remove(copy): Unit
  }

  /** Returns the progress of the copies that run. */
  def progress: Seq[CopyProgress] = copies.asScala.toSeq.map(_.progress).sortBy(_.table)

  /** Returns the lines since the last call. */
  def take(): Seq[String] = Iterator.continually(lines.poll()).takeWhile(_ != null).toSeq
}

private object JobLog {
  private val MostLines = 1000
}
