package io.sparkpgoutput.lake.resync

import org.apache.spark.SparkContext

/**
 * Spark's scheduler pool for what reads whole tables while the stream runs. If `spark.scheduler.mode` is
 * FAIR, this pool and the micro-batches share the cores. In the mode FIFO, Spark's default, the oldest
 * job gets each core that is free, so the micro-batches wait for a copy.
 *
 * @see Spark's documentation, "Job Scheduling", "Fair Scheduler Pools"
 */
private[lake] object CopyPool {
  final private val Name = "spark-pgoutput-copies"
  final private val Property = "spark.scheduler.pool"

  /** Runs something whose jobs, also those of threads that it starts, are in the pool. */
  def within[T](context: SparkContext)(body: => T): T = {
    val before = context.getLocalProperty(Property)
    context.setLocalProperty(Property, Name)
    try body
    finally context.setLocalProperty(Property, before)
  }
}
