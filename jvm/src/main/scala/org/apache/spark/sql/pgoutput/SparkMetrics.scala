package org.apache.spark.sql.pgoutput

import org.apache.spark.SparkEnv
import org.apache.spark.metrics.source.Source

import com.codahale.metrics.MetricRegistry

/**
 * Gives metrics to Spark's metrics system. This object is in this package because the system is
 * `private[spark]`.
 */
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
