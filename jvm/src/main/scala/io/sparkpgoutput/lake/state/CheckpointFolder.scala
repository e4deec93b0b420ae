package io.sparkpgoutput.lake.state

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

/**
 * Where the checkpoint of the stream is. The first one is the folder that the user names. Each later
 * generation has a folder of its own in it, so what an older stream has left is never read again.
 */
object CheckpointFolder {
  private val Name = """generation-(\d{1,9})""".r

  def of(checkpoint: String, generation: Int): String =
    if (generation == 1) checkpoint else new Path(checkpoint, s"generation-$generation").toString

  /** Returns the newest generation that has a folder. */
  def newest(checkpoint: String, configuration: Configuration): Int = {
    val path = new Path(checkpoint)
    val files = path.getFileSystem(configuration)
    val found = if (files.exists(path)) files.listStatus(path).toSeq else Nil
    found.map(
      _.getPath.getName
    ).collect { case Name(number) => number.toInt }.maxOption.getOrElse(1)
  }

  /** Tells if a micro-batch was planned. Spark makes the folder before. */
  def isStarted(checkpoint: String, generation: Int, configuration: Configuration): Boolean = {
    val offsets = new Path(of(checkpoint, generation), "offsets")
    val files = offsets.getFileSystem(configuration)
    files.exists(offsets) && files.listStatus(offsets).exists(_.getPath.getName.forall(_.isDigit))
  }
}
