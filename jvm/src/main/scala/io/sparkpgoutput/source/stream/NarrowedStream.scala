package io.sparkpgoutput.source.stream

import org.apache.spark.sql.connector.read.streaming.{MicroBatchStream, Offset}
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReaderFactory}

import io.sparkpgoutput.source.output.SlotOutput

/**
 * A stream of which a query needs only some columns. It reads in place of the stream, and Spark counts
 * its rows as those of the stream, because the two are equal.
 */
final class NarrowedStream(val stream: SlotStream, output: SlotOutput) extends MicroBatchStream {
  override def planInputPartitions(from: Offset, to: Offset): Array[InputPartition] =
    stream.plan(from, to, output)

  override def createReaderFactory(): PartitionReaderFactory = stream.createReaderFactory()
  override def initialOffset(): Offset = stream.initialOffset()
  override def latestOffset(): Offset = stream.latestOffset()
  override def deserializeOffset(json: String): Offset = stream.deserializeOffset(json)
  override def commit(end: Offset): Unit = stream.commit(end)
  override def stop(): Unit = stream.stop()

  override def equals(other: Any): Boolean = stream == other
  override def hashCode: Int = stream.hashCode
  override def toString: String = stream.toString
}
