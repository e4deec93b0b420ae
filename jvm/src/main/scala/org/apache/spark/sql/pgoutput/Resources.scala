package org.apache.spark.sql.pgoutput

import java.io.File

import scala.collection.mutable

import org.apache.spark.metrics.source.Source
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.classic.ClassicConversions.castToImpl
import org.apache.spark.sql.execution.LogicalRDD
import org.apache.spark.util.{SignalUtils, Utils}
import org.apache.spark.{ShuffleDependency, SparkEnv, TaskContext}

import com.codahale.metrics.MetricRegistry

// What Spark keeps for its own tasks and processes is `private[spark]`, so the objects in this file are in a package
// of Spark.

/** Counts the input of a task, which Spark's UI shows. */
object TaskInput {

  /** Adds rows and bytes to what the task has read. */
  def add(task: TaskContext, rows: Long, bytes: Long): Unit = {
    val metrics = task.taskMetrics().inputMetrics
    metrics.incRecordsRead(rows)
    metrics.incBytesRead(bytes)
  }
}

/** Gives metrics to Spark's metrics system. */
object SparkMetrics {

  /**
   * Registers metrics. Those that the registry gets later are registered too.
   *
   * @return an object that removes the metrics when it is closed
   */
  def register(name: String, registry: MetricRegistry): AutoCloseable = {
    val system = SparkEnv.get.metricsSystem
    val source = new Source {
      override val sourceName: String = name
      override val metricRegistry: MetricRegistry = registry
    }
    system.registerSource(source)
    () => system.removeSource(source)
  }
}

/** Runs an action when a signal is to end this process, and before the JVM begins to shut down. */
object Signals {
  def beforeExit(action: => Unit): Unit =
    for (signal <- Seq("TERM", "INT", "HUP"))
      SignalUtils.register(signal) {
        action
        false // The signal is not handled, so the process ends.
      }
}

/** Makes folders in Spark's local directories (`spark.local.dir`). */
object LocalFolder {

  /** Makes a folder that is removed at the end of the process at the latest. */
  def make(name: String): File = {
    // `Utils.getLocalDir` takes another class since Spark 4.1.
    val ofBlocks = SparkEnv.get.blockManager.diskBlockManager.localDirs.head
    Utils.createTempDir(ofBlocks.getParent, name)
  }
}

/**
 * Frees disks as soon as rows are not needed any more. Spark itself frees them when the garbage collector
 * of the driver finds that nobody refers to the rows, and until then a long catch-up can fill the disks.
 */
object FreedStorage {

  /** Removes the files of the shuffles that an RDD was computed by. It cannot be computed again. */
  def removeShuffles(rows: RDD[_]): Unit = {
    val context = rows.sparkContext
    shuffles(rows).foreach { shuffle =>
      context.cleaner match {
        case Some(cleaner) => cleaner.doCleanupShuffle(shuffle, blocking = false)
        case None          => context.shuffleDriverComponents.removeShuffle(shuffle, false)
      }
    }
  }

  /** Frees the rows that `DataFrame.localCheckpoint` has kept. */
  def unpersist(checkpoint: DataFrame): Unit =
    castToImpl(checkpoint).queryExecution.logical
      .collect { case kept: LogicalRDD => kept.rdd }
      .foreach(_.unpersist(blocking = false))

  private def shuffles(rows: RDD[_]): Set[Int] = {
    val seen = mutable.Set.empty[Int]
    val found = mutable.Set.empty[Int]
    val left = mutable.Stack[RDD[_]](rows)
    while (left.nonEmpty) {
      val rdd = left.pop()
      if (seen.add(rdd.id)) {
        found ++= rdd.dependencies.collect { case shuffle: ShuffleDependency[_, _, _] =>
          shuffle.shuffleId
        }
        left.pushAll(rdd.dependencies.map(_.rdd))
      }
    }
    found.toSet
  }
}
