package io.sparkpgoutput.lake.copy

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.util.LongAccumulator
import org.apache.spark.{InterruptibleIterator, Partition, SparkContext, TaskContext}

import io.sparkpgoutput.lake.table.MirroredTable
import io.sparkpgoutput.source.connection.ServerAddress
import io.sparkpgoutput.types.ConversionOptions

/**
 * What the tasks of a copy need to know. The password is in here and nowhere else.
 *
 * @param snapshot
 *   the name of the snapshot that all tasks read
 */
final private case class CopySettings(
    address: ServerAddress,
    applicationName: String,
    snapshot: String,
    table: MirroredTable,
    options: ConversionOptions
)

/** The rows of a table in a snapshot. Each range is a partition. */
final private class CopyRDD(
    context: SparkContext,
    settings: CopySettings,
    ranges: Seq[CopyRange],
    rows: LongAccumulator,
    bytes: LongAccumulator
) extends RDD[InternalRow](context, Nil) {
  setName(s"copy of ${settings.table.source.name}")

  override protected def getPartitions: Array[Partition] =
    ranges.zipWithIndex.map { case (range, index) => CopyPartition(index, range) }.toArray

  override def compute(split: Partition, task: TaskContext): Iterator[InternalRow] = {
    val reader = new CopyReader(settings, split.asInstanceOf[CopyPartition].range)
    task.addTaskCompletionListener[Unit] { _ =>
      rows.add(reader.readRows)
      bytes.add(reader.readBytes)
      reader.close()
    }
    // A task can read several ranges, one after another.
    new InterruptibleIterator(task, reader) {
      override def hasNext: Boolean = super.hasNext || {
        reader.close()
        false
      }
    }
  }
}

final private case class CopyPartition(index: Int, range: CopyRange) extends Partition
