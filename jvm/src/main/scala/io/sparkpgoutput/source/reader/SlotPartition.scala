package io.sparkpgoutput.source.reader

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReader, PartitionReaderFactory}
import org.apache.spark.util.CollectionAccumulator

import io.sparkpgoutput.source.session.BatchRead

/** The one partition of a batch. It prefers the executor that keeps the session. */
final case class SlotPartition(read: BatchRead, location: Option[String]) extends InputPartition {
  override def preferredLocations(): Array[String] = location.toArray
}

/** Makes the reader of a batch's partition on an executor. */
final case class SlotReaderFactory(reports: CollectionAccumulator[String])
    extends PartitionReaderFactory {
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] =
    new SlotPartitionReader(partition.asInstanceOf[SlotPartition].read, reports)
}
