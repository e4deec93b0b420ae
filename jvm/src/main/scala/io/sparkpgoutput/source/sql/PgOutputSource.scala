package io.sparkpgoutput.source.sql

import java.util

import scala.util.Using

import org.apache.spark.sql.connector.catalog.{SupportsRead, Table, TableCapability}
import org.apache.spark.sql.connector.metric.CustomMetric
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.internal.connector.SimpleTableProvider
import org.apache.spark.sql.sources.DataSourceRegister
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

import io.sparkpgoutput.changes.rows.ChangeSchema
import io.sparkpgoutput.changes.{TableName, TablePattern}
import io.sparkpgoutput.errors.SourceException
import io.sparkpgoutput.source.output.SlotOutput
import io.sparkpgoutput.source.reader.{MessageBytesMetric, TransactionsMetric}
import io.sparkpgoutput.source.stream.{SlotBatch, SlotStream, SourceOptions}
import io.sparkpgoutput.source.table.PublishedTable

/** The data source `pgoutput`, which reads a replication slot. Spark finds it by `META-INF/services`. */
final class PgOutputSource extends SimpleTableProvider with DataSourceRegister {
  override def shortName(): String = "pgoutput"

  override def getTable(options: CaseInsensitiveStringMap): Table =
    SlotTable(SourceOptions.parse(options))
}

/** A slot, as a table that Spark reads. */
final class SlotTable(val options: SourceOptions, output: SlotOutput) extends SupportsRead {
  override def name(): String = s"pgoutput $options"
  override def schema(): StructType = output.schema

  override def capabilities(): util.Set[TableCapability] =
    util.EnumSet.of(TableCapability.BATCH_READ, TableCapability.MICRO_BATCH_READ)

  override def newScanBuilder(ignored: CaseInsensitiveStringMap): ScanBuilder =
    new SlotScanBuilder(new SlotScan(options, output))
}

object SlotTable {

  /** Finds the columns. With the option `table`, it asks the server's catalog for them. */
  def apply(options: SourceOptions): SlotTable = new SlotTable(
    options,
    if (options.asMessages) SlotOutput.RawMessages() else SlotOutput.Changes(format(options))
  )

  private def format(options: SourceOptions) = {
    val all = withColumns(options).format(SQLConf.get)
    val fields = all.requiredFields.filterNot(_ == ChangeSchema.POSITION)
    for (name <- options.table) checkNames(name, all.table.columns.fieldNames.toSeq, fields)
    all.copy(requiredFields = fields)
  }

  /** Spark cannot distinguish two columns of one name. */
  private def checkNames(table: TableName, columns: Seq[String], fields: Seq[Int]): Unit = {
    val own = fields.map(ChangeSchema.schema(_).name)
    columns.find(name => own.exists(SQLConf.get.resolver(_, name))).foreach(name =>
      throw new SourceException(
        "PGOUTPUT_SOURCE_OPTION.COLUMN_NAME",
        "table" -> table,
        "column" -> name
      )
    )
  }

  private def withColumns(options: SourceOptions) = {
    import options.changes
    options.table.fold(changes) { name =>
      val found = Using.resource(options.client())(_.query(
        PublishedTable.find(_, options.publications, name, changes.row.types)
      ))
      changes.copy(
        tables = Some(Seq(TablePattern(name.namespace, Some(name.name)))),
        schema = Some(found.schema),
        row = changes.row.copy(types = found.types)
      )
    }
  }
}

/** Narrows a batch read to the columns that a query needs. */
final class SlotScanBuilder(var scan: SlotScan) extends SupportsPushDownRequiredColumns {
  override def pruneColumns(required: StructType): Unit =
    scan = scan.select(required.fieldNames.toSet)

  override def build(): Scan = scan
}

/** A read of a slot. */
final class SlotScan(val options: SourceOptions, val output: SlotOutput) extends Scan {

  /** Returns a scan that has these columns only. */
  def select(columns: Set[String]): SlotScan = new SlotScan(options, output.select(columns))

  override def readSchema(): StructType = output.schema
  override def description(): String = {
    val what = if (options.asMessages) "messages" else "changes"
    s"$what of publication ${options.publications.mkString(", ")}"
  }
  override def toBatch: Batch = new SlotBatch(options, output)

  override def toMicroBatchStream(checkpoint: String): MicroBatchStream =
    new SlotStream(options, output, checkpoint)

  override def supportedCustomMetrics(): Array[CustomMetric] =
    Array(new TransactionsMetric, new MessageBytesMetric)
  override def columnarSupportMode(): Scan.ColumnarSupportMode =
    Scan.ColumnarSupportMode.UNSUPPORTED
}
