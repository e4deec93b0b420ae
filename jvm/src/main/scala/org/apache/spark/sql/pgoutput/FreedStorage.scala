package org.apache.spark.sql.pgoutput

import scala.collection.mutable

import org.apache.spark.ShuffleDependency
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.execution.LogicalRDD
import org.apache.spark.sql.{DataFrame, classic}

/**
 * Frees disks as soon as rows are not needed any more. Spark itself frees them when the garbage collector
 * of the driver finds that nobody refers to the rows, and until then a long catch-up can fill the disks.
 * This object is in this package because Spark's cleaner is `private[spark]`.
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
    checkpoint.asInstanceOf[classic.Dataset[_]].queryExecution.logical.foreach {
      case kept: LogicalRDD => kept.rdd.unpersist(blocking = false): Unit
      case _                => ()
    }

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
