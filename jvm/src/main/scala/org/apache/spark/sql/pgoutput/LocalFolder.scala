package org.apache.spark.sql.pgoutput

import java.io.File

import org.apache.spark.SparkEnv
import org.apache.spark.util.Utils

/**
 * Makes folders in Spark's local directories (`spark.local.dir`). This object is in this package because
 * Spark's methods for these directories are `private[spark]`.
 */
object LocalFolder {

  /** Makes a folder that is removed at the end of the process at the latest. */
  def make(name: String): File = {
    // `Utils.getLocalDir` takes another class since Spark 4.1.
    val ofBlocks = SparkEnv.get.blockManager.diskBlockManager.localDirs.head
    Utils.createTempDir(ofBlocks.getParent, name)
  }
}
