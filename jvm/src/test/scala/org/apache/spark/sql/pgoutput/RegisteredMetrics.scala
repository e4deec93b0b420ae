package org.apache.spark.sql.pgoutput

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkEnv

/** The content of Spark's metrics system, which is private to Spark. */
object RegisteredMetrics {

  /** The values of all gauges, by their names. */
  def gauges: Map[String, Any] = {
    val system = SparkEnv.get.metricsSystem
    val registry = system.getClass.getDeclaredFields.find(_.getName.endsWith("registry")).get
    registry.setAccessible(true)
    registry.get(system).asInstanceOf[com.codahale.metrics.MetricRegistry].getGauges.asScala
      .map { case (name, gauge) => name -> gauge.getValue }.toMap
  }
}
