package io.sparkpgoutput.lake.copy

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.{InterruptibleIterator, Partition, SparkContext, TaskContext}

import io.sparkpgoutput.lake.table.MirroredTable
import io.sparkpgoutput.source.connection.ServerAddress
import io.sparkpgoutput.types.ConversionOptions

/**
 * The data that the tasks of a copy need. The password is only here.
 *
 * @param snapshot the name of the snapshot that all tasks read
 * @param options how values are read
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
    counts: CopyCounts
) extends RDD[InternalRow](context, Nil) {
  setName(s"copy of ${settings.table.source.name}")

  override protected def getPartitions: Array[Partition] =
    ranges.zipWithIndex.map { case (range, index) => CopyPartition(index, range) }.toArray

  override def compute(split: Partition, task: TaskContext): Iterator[InternalRow] = {
    val range = split.asInstanceOf[CopyPartition].range
    val reader = new CopyReader(settings, range)
    val read = new RangeCounts(counts, task, reader, range)
    task.addTaskCompletionListener[Unit] { _ =>
      read.add()
      reader.close()
    }
    // A task can read several ranges, one after another.
    new InterruptibleIterator(task, reader) {
      override def hasNext: Boolean = super.hasNext || {
        read.end()
        reader.close()
        false
      }

      override def next(): InternalRow = {
        val row = super.next()
        read.afterRow()
        row
      }
    }
  }
}

final private case class CopyPartition(index: Int, range: CopyRange) extends Partition
