package io.sparkpgoutput.source.sql

import java.util

import org.apache.spark.sql.connector.catalog.{Table, TableProvider}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.sources.DataSourceRegister
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

import io.sparkpgoutput.source.options.SourceOptions

/** The data source `pgoutput`, which reads a replication slot. Spark finds it by `META-INF/services`. */
final class PgOutputSource extends TableProvider with DataSourceRegister {

  /** Spark asks for the schema first, and then for the table of the same options. */
  private var table: SlotTable = _

  override def shortName(): String = "pgoutput"

  override def inferSchema(options: CaseInsensitiveStringMap): StructType = {
    table = SlotTable(SourceOptions.parse(options))
    table.schema()
  }

  override def getTable(
      schema: StructType,
      partitioning: Array[Transform],
      properties: util.Map[String, String]
  ): Table = if (table == null) {
    SlotTable(SourceOptions.parse(new CaseInsensitiveStringMap(properties)))
  } else table
}
