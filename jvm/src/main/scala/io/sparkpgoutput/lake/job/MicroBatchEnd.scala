package io.sparkpgoutput.lake.job

import java.nio.charset.StandardCharsets.UTF_8

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import io.sparkpgoutput.protocol.Lsn

/**
 * Reads the end of a micro-batch from the checkpoint. Spark writes `offsets/<batch>` before it runs the
 * batch, and `foreachBatch` gets only its number.
 */
object MicroBatchEnd {
  private val Offset = """\{\s*"lsn"\s*:\s*"([0-9A-Fa-f]+/[0-9A-Fa-f]+)"\s*\}""".r

  def read(checkpoint: String, batch: Long, configuration: Configuration): Long = {
    val file = new Path(new Path(checkpoint, "offsets"), batch.toString)
    val text = Using.resource(file.getFileSystem(configuration).open(file)) { in =>
      new String(in.readAllBytes(), UTF_8)
    }
    Offset.findAllMatchIn(text).toSeq match {
      case Seq(found) => Lsn.parse(found.group(1)).get
      case found =>
        throw new IllegalStateException(s"$file has ${found.length} offsets of a slot, not one.")
    }
  }
}
