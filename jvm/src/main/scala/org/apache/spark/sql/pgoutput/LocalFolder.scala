package org.apache.spark.sql.pgoutput

import java.io.File

import org.apache.spark.sql.SparkSession
import org.apache.spark.util.Utils

/**
 * Makes folders in Spark's local directories (`spark.local.dir`). This object is in this package because
 * what knows these directories is `private[spark]`.
 */
object LocalFolder {

  /** Makes a folder that is removed at the end of the process at the latest. */
  def make(session: SparkSession, name: String): File =
    Utils.createTempDir(Utils.getLocalDir(session.sparkContext.getConf), name)
}
