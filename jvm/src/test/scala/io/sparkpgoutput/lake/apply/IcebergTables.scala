package io.sparkpgoutput.lake.apply

import java.nio.file.Files

import org.apache.spark.sql.SparkSession

import org.apache.iceberg.spark.Spark3Util
import org.apache.iceberg.spark.actions.SparkActions

import io.sparkpgoutput.lake.direct.KeyCache
import io.sparkpgoutput.lake.target.{Target, Targets}

/** A catalog of Iceberg in a temporary folder. */
object IcebergTables {
  final val Catalog = "lake"

  def in(spark: SparkSession, namespace: String, keys: KeyCache = KeyCache.none): Target = {
    val catalog = s"spark.sql.catalog.$Catalog"
    if (spark.conf.getOption(catalog).isEmpty) {
      spark.conf.set(catalog, "org.apache.iceberg.spark.SparkCatalog")
      spark.conf.set(s"$catalog.type", "hadoop")
      spark.conf.set(s"$catalog.warehouse", Files.createTempDirectory("iceberg").toString)
    }
    Targets.of(spark, s"$Catalog.$namespace", Some("iceberg"), keys)
  }

  /** Rewrites all files of a table, as a service beside the job does. */
  def rewrite(spark: SparkSession, table: String): Unit = {
    val loaded = Spark3Util.loadIcebergTable(spark, table)
    loaded.refresh()
    SparkActions.get(spark).rewriteDataFiles(loaded).option("rewrite-all", "true").execute(): Unit
  }
}
