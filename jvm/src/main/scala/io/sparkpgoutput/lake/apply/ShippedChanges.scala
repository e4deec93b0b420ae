package io.sparkpgoutput.lake.apply

import scala.collection.mutable

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.pgoutput.{FreedStorage, RowsOfRdd}
import org.apache.spark.storage.StorageLevel

import io.sparkpgoutput.lake.batch.{ChangeChunk, ChangeFields, ChangePacker}

/**
 * The changes of a large cut: they go to executors in blocks, which sort them and keep them on their
 * disks. The driver has one block in memory while it makes them. Spark keeps a block that was made in
 * the driver's memory as long as there is room, then on its disk. Not thread-safe.
 *
 * @param session a session that sorts them, with adaptive execution, so that few changes are few tasks
 */
final class ShippedChanges(session: SparkSession) {
  private val context = session.sparkContext
  private val blocks = mutable.ArrayBuffer.empty[Broadcast[Array[Byte]]]
  private var chunks = Option.empty[RDD[Array[Byte]]]

  /** Takes the rows of the changes. */
  val packer: ChangePacker =
    new ChangePacker(ShippedChanges.BlockSize, blocks += context.broadcast(_))

  /**
   * Sorts the changes, and frees the blocks. The result, which [[ChangeChunk]] unpacks, is cut off from
   * them. So if an executor with some of the changes is lost, the commit fails, and the cut is made again.
   */
  def sorted(): RDD[Array[Byte]] = {
    packer.flush()
    val shipped = context.parallelize(blocks.toSeq, math.max(1, blocks.length))
    val changes = shipped.mapPartitions(found => ChangeChunk.rows(found.map(_.value)))
    val sorted = RowsOfRdd.of(
      RowsOfRdd
        .toDataFrame(session, changes, ChangeFields.schema)
        .repartition(col(ChangeFields.schema(ChangeFields.HASH).name))
        .sortWithinPartitions(ChangeFields.order.map(col): _*)
    )
    try {
      val kept = sorted.mapPartitions(ChangeChunk.pack(_))
      chunks = Some(kept)
      kept.persist(StorageLevel.DISK_ONLY).localCheckpoint()
      context.runJob(kept, (rows: Iterator[Array[Byte]]) => rows.foreach(_ => ()))
      kept
    } finally {
      FreedStorage.removeShuffles(sorted)
      destroyBlocks()
    }
  }

  /** Frees the memory and the disks, also those of blocks that were not sorted. */
  def close(): Unit = {
    destroyBlocks()
    chunks.foreach(_.unpersist(blocking = false))
    chunks = None
  }

  private def destroyBlocks(): Unit = {
    blocks.foreach(_.destroy())
    blocks.clear()
  }
}

private object ShippedChanges {
  final private val BlockSize = 16 << 20
}
