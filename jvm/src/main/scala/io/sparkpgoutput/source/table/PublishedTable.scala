package io.sparkpgoutput.source.table

import org.apache.spark.sql.types.{StructField, StructType}

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.errors.SourceException
import io.sparkpgoutput.source.SqlIdentifier
import io.sparkpgoutput.source.connection.ServerConnection
import io.sparkpgoutput.source.slot.SlotChecks
import io.sparkpgoutput.types.registry.TypeRegistry

/**
 * A table as the publications send it.
 *
 * @param schema
 *   the columns that the publications send, with their default types in Spark
 * @param types
 *   the declarations of the types that PostgreSQL does not fix, as the option `type.<oid>` has them
 */
final case class PublishedTable(schema: StructType, types: TypeRegistry)

object PublishedTable {

  /**
   * Asks the catalog for a table. Fails if a publication does not exist, or no publication sends
   * changes under this name.
   *
   * @param types the types that the user has declared
   */
  def find(
      connection: ServerConnection,
      publications: Seq[String],
      table: TableName,
      types: TypeRegistry
  ): PublishedTable = {
    val version = connection.majorVersion
    SlotChecks.publications(connection, publications)
    val oid = new PublishedName(connection, publications, table, version).check()
    val columns = connection.query(columnsQuery(version), publications.toArray, oid) { row =>
      (row.getString("attname"), row.getLong("type"), row.getInt("atttypmod"))
    }
    val found = CatalogTypes.read(connection, columns.map(_._2).distinct, types)
    val fields = columns.map { case (name, typeOid, ofColumn) =>
      val modifier = found.modifier(typeOid, ofColumn)
      StructField(name, found.byOid(typeOid).sparkType(modifier))
        .withComment(found.describe(typeOid, modifier))
    }
    PublishedTable(StructType(fields), found.registry)
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

/**
 * The names under which publications send the changes of tables. A partition has its own name or that
 * of its root, as `publish_via_partition_root` says. If two publications differ in that, the root wins
 * (`get_rel_sync_entry`).
 *
 * @param version the major version of the server
 */
final private class PublishedName(
    connection: ServerConnection,
    publications: Seq[String],
    table: TableName,
    version: Int
) {

  /** Checks that publications send a table under its name, and returns the oid of the table. */
  def check(): Long = {
    val oid = connection
      .query(
        "SELECT c.oid::bigint FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace " +
          "WHERE n.nspname = ? AND c.relname = ?",
        table.namespace,
        table.name
      )(_.getLong(1))
      .headOption
      .getOrElse(throw noTable)
    val related = published(Some(oid))
    related.find(_.isAncestor).foreach(root => throw ofRoot(root.name))
    if (!related.exists(_.oid == oid))
      throw (if (related.nonEmpty) ofPartitions(related.map(_.name)) else notPublished)
    oid
  }

  /** The tables that publications name, or of these a table, its ancestors and its partitions. */
  private def published(relatedTo: Option[Long]): Seq[Published] = {
    val oid = relatedTo.getOrElse(0L)
    val related =
      if (relatedTo.isEmpty) ""
      else s"WHERE c.oid = $oid OR c.oid IN (TABLE ancestor) OR c.oid IN (TABLE partition)"
    connection.query(
      // pg_partition_ancestors and pg_partition_tree would wait for locks.
      s"""${PublishedRelations.of(version)},
         |link AS (
         |  SELECT inhrelid, inhparent FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid
         |  WHERE c.relispartition
         |),
         |ancestor (oid) AS (
         |  SELECT inhparent FROM link WHERE inhrelid = $oid
         |  UNION SELECT inhparent FROM link JOIN ancestor ON inhrelid = ancestor.oid
         |),
         |partition (oid) AS (
         |  SELECT inhrelid FROM link WHERE inhparent = $oid
         |  UNION SELECT inhrelid FROM link JOIN partition ON inhparent = partition.oid
         |)
         |SELECT DISTINCT c.oid::bigint AS oid, n.nspname, c.relname,
         |  c.oid IN (TABLE ancestor) AS is_ancestor
         |FROM published t
         |JOIN pg_class c ON c.oid = t.relation
         |JOIN pg_namespace n ON n.oid = c.relnamespace
         |$related
         |ORDER BY n.nspname, c.relname""".stripMargin,
      publications.toArray
    ) { row =>
      Published(
        row.getLong("oid"),
        TableName(row.getString("nspname"), row.getString("relname")),
        row.getBoolean("is_ancestor")
      )
    }
  }

  private def noTable = new SourceException(
    "PGOUTPUT_TABLE_NOT_PUBLISHED.NO_TABLE",
    "table" -> quoted(table),
    "published" -> listed(published(None))
  )

  private def ofRoot(root: TableName) = new SourceException(
    "PGOUTPUT_TABLE_NOT_PUBLISHED.PARTITION",
    "table" -> quoted(table),
    "root" -> quoted(root)
  )

  private def ofPartitions(partitions: Seq[TableName]) = new SourceException(
    "PGOUTPUT_TABLE_NOT_PUBLISHED.PARTITIONED",
    "table" -> quoted(table),
    "partitions" -> names(partitions)
  )

  private def notPublished = new SourceException(
    "PGOUTPUT_TABLE_NOT_PUBLISHED.NOT_SENT",
    "table" -> quoted(table),
    "published" -> listed(published(None)),
    "publication" -> SqlIdentifier(publications.head)
  )

  final private val MostNames = 20

  private def listed(published: Seq[Published]) =
    if (published.isEmpty) "The publications of the query have no tables."
    else s"The publications of the query have: ${names(published.map(_.name))}."

  private def names(tables: Seq[TableName]) =
    tables.take(MostNames).map(quoted).mkString(", ") +
      (if (tables.length > MostNames) s" and ${tables.length - MostNames} more" else "")

  private def quoted(table: TableName) =
    s"${SqlIdentifier(table.namespace)}.${SqlIdentifier(table.name)}"
}

/** A table that publications name, and whether it is an ancestor of the table that is read. */
final private case class Published(oid: Long, name: TableName, isAncestor: Boolean)
