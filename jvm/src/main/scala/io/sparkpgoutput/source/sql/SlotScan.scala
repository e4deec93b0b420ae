package io.sparkpgoutput.source.sql

import org.apache.spark.sql.connector.metric.CustomMetric
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream
import org.apache.spark.sql.connector.read.{
  Batch,
  Scan,
  ScanBuilder,
  SupportsPushDownRequiredColumns
}
import org.apache.spark.sql.types.StructType

import io.sparkpgoutput.source.batch.SlotBatch
import io.sparkpgoutput.source.options.SourceOptions
import io.sparkpgoutput.source.output.SlotOutput
import io.sparkpgoutput.source.reader.ReadMetrics
import io.sparkpgoutput.source.stream.{NarrowedStream, SlotStream}

/** Narrows a batch read to the columns that a query needs. */
final class SlotScanBuilder(options: SourceOptions, var output: SlotOutput)
    extends ScanBuilder
    with SupportsPushDownRequiredColumns {

  override def pruneColumns(required: StructType): Unit =
    output = output.select(required.fieldNames.toSet)

  override def build(): Scan = new SlotScan(options, output)
}

/** A read of a slot. */
final class SlotScan(val options: SourceOptions, output: SlotOutput) extends Scan {

  /** Returns a scan, and the stream of it, that have these columns only. */
  def select(columns: Set[String], stream: SlotStream): (SlotScan, NarrowedStream) = {
    val narrowed = output.select(columns)
    (new SlotScan(options, narrowed), new NarrowedStream(stream, narrowed))
  }

  override def readSchema(): StructType = output.schema
  override def description(): String = {
    val what = if (options.asMessages) "messages" else "changes"
    s"$what of publication ${options.publications.mkString(", ")}"
  }
  override def toBatch: Batch = new SlotBatch(options, output)

  override def toMicroBatchStream(checkpoint: String): MicroBatchStream =
    new SlotStream(options, output, checkpoint)

  override def supportedCustomMetrics(): Array[CustomMetric] = ReadMetrics.all
  override def columnarSupportMode(): Scan.ColumnarSupportMode =
    Scan.ColumnarSupportMode.UNSUPPORTED
}
