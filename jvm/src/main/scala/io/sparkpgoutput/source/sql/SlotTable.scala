package io.sparkpgoutput.source.sql

import java.util

import scala.util.Using

import org.apache.spark.sql.connector.catalog.{SupportsRead, Table, TableCapability}
import org.apache.spark.sql.connector.read.ScanBuilder
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

import io.sparkpgoutput.changes.rows.ChangeSchema
import io.sparkpgoutput.changes.{TableName, TablePattern}
import io.sparkpgoutput.source.SourceError
import io.sparkpgoutput.source.connection.ServerClient
import io.sparkpgoutput.source.options.SourceOptions
import io.sparkpgoutput.source.output.SlotOutput
import io.sparkpgoutput.source.table.PublishedTable

/** A slot, as a table that Spark reads. */
final class SlotTable(val options: SourceOptions, output: SlotOutput) extends Table
    with SupportsRead {
  override def name(): String = s"pgoutput $options"
  override def schema(): StructType = output.schema

  override def capabilities(): util.Set[TableCapability] =
    util.EnumSet.of(TableCapability.BATCH_READ, TableCapability.MICRO_BATCH_READ)

  override def newScanBuilder(ignored: CaseInsensitiveStringMap): ScanBuilder =
    new SlotScanBuilder(options, output)
}

object SlotTable {

  /** Finds the columns. With the option `table`, it asks the server's catalog for them. */
  def apply(options: SourceOptions): SlotTable = new SlotTable(
    options,
    if (options.asMessages) SlotOutput.Messages() else SlotOutput.Changes(format(options))
  )

  private def format(options: SourceOptions) = {
    val all = withColumns(options).changes.format(SQLConf.get)
    val fields = all.requiredFields.filterNot(_ == ChangeSchema.POSITION)
    for (name <- options.table) checkNames(name, all.table.columns.fieldNames.toSeq, fields)
    all.copy(requiredFields = fields)
  }

  /** Spark cannot tell two columns of one name apart. */
  private def checkNames(table: TableName, columns: Seq[String], fields: Seq[Int]): Unit = {
    val own = fields.map(ChangeSchema.schema(_).name)
    columns.find(name => own.exists(SQLConf.get.resolver(_, name))).foreach(name =>
      throw SourceError.option(
        s"The table $table has a column '$name', which is the name of a column that all changes have. " +
          "Rename it in PostgreSQL, or use the options 'tables' and 'row' in place of 'table'."
      )
    )
  }

  private def withColumns(options: SourceOptions): SourceOptions = options.table match {
    case None => options
    case Some(name) =>
      import options.changes
      val found =
        Using.resource(new ServerClient(options.address, options.applicationName))(_.query {
          connection =>
            val version = connection.majorVersion
            PublishedTable.find(connection, options.publications, name, version, changes.row.types)
        })
      options.copy(changes =
        changes.copy(
          tables = Some(Seq(TablePattern(name.namespace, Some(name.name)))),
          schema = Some(found.schema),
          row = changes.row.copy(types = found.types)
        )
      )
  }
}
