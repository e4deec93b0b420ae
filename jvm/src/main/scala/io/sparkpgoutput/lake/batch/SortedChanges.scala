package io.sparkpgoutput.lake.batch

import scala.jdk.CollectionConverters._

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.pgoutput.RowsOfRdd
import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.storage.StorageLevel

import io.sparkpgoutput.lake.ApplyError
import io.sparkpgoutput.source.output.MessageFields

/**
 * The changes of a batch on the disks of executors: those of each row together, in the order in which
 * they were made.
 *
 * @param session the session that sorted them
 * @param chunks arrays of [[ChangeChunk]] with the oids of their tables
 */
final class SortedChanges private (
    val session: SparkSession,
    val statistics: BatchStatistics,
    chunks: RDD[(Long, Array[Byte])]
) {

  /** The changes of a table, which [[ChangeChunk]] unpacks. */
  def of(oid: Long): RDD[Array[Byte]] = chunks.filter(_._1 == oid).map(_._2)

  /** Frees the disks. */
  def close(): Unit = {
    chunks.unpersist(blocking = false)
    ()
  }
}

object SortedChanges {

  /**
   * Reads a batch once. The rows are cut off from the slot, because the slot cannot be asked for a
   * part of a batch. So if an executor with some of the rows is lost, the batch fails.
   *
   * @param batch the messages of committed transactions, in order, in one partition
   * @param session
   *   a session that sorts them, with adaptive execution: small batches then are few tasks
   */
  def read(batch: DataFrame, session: SparkSession, tables: Seq[RoutedTable]): SortedChanges = {
    val names = BatchRouter.columns.map(MessageFields.schema(_).name)
    val messages = batch.select(names.map(col): _*)
    val reports =
      session.sparkContext.collectionAccumulator[(Int, Array[Byte])]("tables of a pgoutput batch")
    val routed = RowsOfRdd.of(messages).mapPartitionsWithIndex { (partition, rows) =>
      new BatchRouter(
        tables,
        rows,
        found => if (found.transactions > 0) reports.add(partition -> found.toBytes)
      )
    }
    val order = ChangeFields.order.map(col)
    val sorted = RowsOfRdd
      .toDataFrame(session, routed, ChangeFields.schema)
      .repartition(col(ChangeFields.schema(ChangeFields.HASH).name))
      .sortWithinPartitions(order: _*)
    val chunks = RowsOfRdd.of(sorted).mapPartitions(ChangeChunk.pack)
    chunks.persist(StorageLevel.DISK_ONLY).localCheckpoint()
    session.sparkContext.runJob(
      chunks,
      (rows: Iterator[(Long, Array[Byte])]) => rows.foreach(_ => ())
    )
    // A task that ran again reported the same again.
    val found = reports.value.asScala.toMap
    if (found.size > 1) throw ApplyError.severalPartitions
    val statistics =
      found.values.headOption.fold(BatchStatistics.empty)(BatchStatistics.fromBytes)
    new SortedChanges(session, statistics, chunks)
  }
}
