package io.sparkpgoutput.lake.apply

import java.nio.file.Files

import org.apache.spark.sql.SparkSession

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
}
