package io.sparkpgoutput.lake.job

import java.util.UUID
import java.util.concurrent.{Callable, ExecutionException, Executors}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.SparkSession

import io.sparkpgoutput.lake.resync.DaemonThreads

/** Runs tasks of the driver side by side. */
private[job] object SideBySide {

  private val threads = new DaemonThreads("spark-pgoutput copies tables")

  /**
   * Runs a task for each element, some at a time, and waits for all. An interrupt of the caller cancels
   * the tasks and their Spark jobs. If tasks fail, it throws the first error when all have ended.
   */
  def run[T](session: SparkSession, elements: Seq[T], atOnce: Int)(task: T => Unit): Unit = {
    val tag = s"spark-pgoutput-${UUID.randomUUID()}"
    val context = session.sparkContext
    val most = math.max(1, math.min(atOnce, elements.length))
    val pool = Executors.newFixedThreadPool(most, threads)
    val tasks = elements.map { element =>
      new Callable[Unit] {
        override def call(): Unit = {
          context.addJobTag(tag)
          try task(element)
          finally context.removeJobTag(tag)
        }
      }
    }
    try {
      val errors = pool.invokeAll(tasks.asJava).asScala.flatMap { ended =>
        try {
          ended.get()
          None
        } catch { case failed: ExecutionException => Some(failed.getCause) }
      }
      errors.headOption.foreach(throw _)
    } finally
      try context.cancelJobsWithTag(tag)
      finally pool.shutdownNow(): Unit
  }
}
