package io.sparkpgoutput.lake.state

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

/**
 * Where the checkpoint of the stream is. The first one is the folder that the user names. Each later
 * generation has a folder of its own in it, so what an older stream has left is never read again.
 */
object CheckpointFolder {
  private val Name = """generation-(\d{1,9})""".r

  /** The name that Spark's CheckpointFileManager gives a file until it is complete. */
  private val Unfinished = """\.\d+\..+\.tmp""".r

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
  def isStarted(checkpoint: String, generation: Int, configuration: Configuration): Boolean =
    offsets(checkpoint, generation, configuration).exists(_.getName.forall(_.isDigit))

  /**
   * Removes what Spark leaves if it is stopped or killed while it writes the offset of the first
   * micro-batch. From Spark 4.1 on, no query starts if the folder of the offsets has another file
   * than offsets (SPARK-53103).
   */
  def removeUnfinished(checkpoint: String, generation: Int, configuration: Configuration): Unit =
    if (!isStarted(checkpoint, generation, configuration))
      offsets(checkpoint, generation, configuration).foreach {
        case path if Unfinished.matches(path.getName) =>
          path.getFileSystem(configuration).delete(path, false)
        case _ => ()
      }

  private def offsets(checkpoint: String, generation: Int, configuration: Configuration) = {
    val folder = new Path(of(checkpoint, generation), "offsets")
    val files = folder.getFileSystem(configuration)
    if (files.exists(folder)) files.listStatus(folder).toSeq.map(_.getPath) else Nil
  }
}
