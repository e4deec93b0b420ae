package io.sparkpgoutput.source.table

import org.apache.spark.sql.types.{StructField, StructType}

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.source.connection.ServerConnection
import io.sparkpgoutput.source.slot.SlotChecks
import io.sparkpgoutput.types.registry.TypeRegistry

/**
 * A table as the publications send it.
 *
 * @param schema
 *   the columns that the publications send, with the types that PostgreSQL's have by default in Spark
 * @param types
 *   the declarations of the types that PostgreSQL does not fix, as the option `type.<oid>` has them
 */
final case class PublishedTable(name: TableName, schema: StructType, types: TypeRegistry)

object PublishedTable {

  /**
   * Asks the catalog for a table. Fails if a publication does not exist, or no publication sends
   * changes under this name.
   *
   * @param version the major version of the server
   * @param types the types that the user has declared
   */
  def find(
      connection: ServerConnection,
      publications: Seq[String],
      table: TableName,
      version: Int,
      types: TypeRegistry
  ): PublishedTable = {
    SlotChecks.publications(connection, publications)
    val oid = PublishedName.check(connection, publications, table, version)
    val columns = connection.query(columnsQuery(version), publications.toArray, oid) { row =>
      (row.getString("attname"), row.getLong("type"), row.getInt("atttypmod"))
    }
    val found = CatalogTypes.read(connection, columns.map(_._2).distinct, types)
    val fields = columns.map { case (name, typeOid, ofColumn) =>
      val modifier = found.modifier(typeOid, ofColumn)
      StructField(name, found.byOid(typeOid).sparkType(modifier))
        .withComment(found.describe(typeOid, modifier))
    }
    PublishedTable(table, StructType(fields), found.registry)
  }

  private def columnsQuery(version: Int): String =
    s"""${PublishedRelations.of(version)}
       |SELECT a.attname, a.atttypid::bigint AS type, a.atttypmod
       |FROM pg_attribute a
       |WHERE a.attrelid = ?::oid AND a.attnum > 0 AND NOT a.attisdropped AND EXISTS (
       |  SELECT FROM published t
       |  WHERE t.relation = a.attrelid AND ${PublishedRelations.isSent(version, "a")}
       |)
       |ORDER BY a.attnum""".stripMargin
}
