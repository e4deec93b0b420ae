package io.sparkpgoutput.lake.catalog

import java.sql.ResultSet

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.source.SqlIdentifier
import io.sparkpgoutput.source.connection.ServerConnection
import io.sparkpgoutput.source.slot.SlotChecks
import io.sparkpgoutput.source.table.{PublishedRelations, WantedFilters}

/**
 * Reads the tables of publications from the server's catalog, as `get_rel_sync_entry` in
 * `pgoutput.c` sees them. A partition has its own name or that of its root, as
 * `publish_via_partition_root` says. If two publications differ in that, the root wins. If several
 * publications have a table, a row is sent that passes one of their filters, and one without a
 * filter sends all rows.
 *
 * A read locks only tables with row filters. So an ALTER TABLE of a table without a row filter never delays
 * it, and [[WantedFilters.OfUnlocked]] leaves out the row filters of locked tables. It runs several queries.
 * To get results that agree, the caller uses a snapshot, or holds a lock on the tables.
 */
object PublishedTables {

  /**
   * Reads all tables of publications. Fails if a publication does not exist.
   *
   * @param waitsForLocks
   *   whether to wait for tables that another session has locked. If not, the result lacks the row filters of such
   *   tables ([[SourceTable.isLocked]]).
   */
  def read(
      connection: ServerConnection,
      publications: Seq[String],
      waitsForLocks: Boolean
  ): Seq[SourceTable] = {
    val filters = if (waitsForLocks) WantedFilters.All else WantedFilters.OfUnlocked
    new PublishedTables(connection, publications, only = None, filters).tables
  }

  /** Reads one table of publications; None if they do not have it under its own name. */
  def readOne(
      connection: ServerConnection,
      publications: Seq[String],
      oid: Long
  ): Option[SourceTable] =
    new PublishedTables(connection, publications, Some(oid), WantedFilters.of(oid))
      .tables.find(_.oid == oid)

  private[lake] def array(oids: Seq[Long]): String = oids.mkString("{", ",", "}")

  /**
   * A table in a publication.
   *
   * @param ancestors the partitioned tables that the table is a partition of
   * @param memberships the oids of the rows of the catalog that put the table into the publication
   * @param publication the oid and the xmin of the publication
   * @param attributes `relnatts`
   */
  final private case class Membership(
      oid: Long,
      name: TableName,
      isPartitioned: Boolean,
      identity: ReplicaIdentity,
      fileNode: Long,
      ancestors: Set[Long],
      publish: Seq[String],
      rowFilter: Option[String],
      memberships: Seq[Long],
      publication: (Long, Long),
      attributes: Int,
      hasFilter: Boolean
  )

  final private case class Column(column: TableColumn, isSent: Boolean)
}

/** @param only the only table that is read, beside the tables that it is a partition of; None for all tables */
final private class PublishedTables(
    connection: ServerConnection,
    publications: Seq[String],
    only: Option[Long],
    filters: WantedFilters
) {
  import PublishedTables._
  import connection.{majorVersion => version}

  def tables: Seq[SourceTable] = {
    SlotChecks.publications(connection, publications)
    // This comes first, so that a transaction that commits during the other queries is not older than the
    // horizon.
    val horizon = connection
      .query(
        "SELECT (pg_snapshot_xmin(pg_current_snapshot())::text::numeric % 4294967296)::bigint"
      )(
        _.getLong(1)
      )
      .head
    val published = roots(publishedTables)
    val oids = published.map(_.oid).distinct
    val leaves = partitions(published.filter(_.isPartitioned).map(_.oid).distinct)
    val columns = tableColumns(oids)
    val missing = missingColumns(leaves.values.flatten.map(_.oid).toSeq)
    val keys = IndexKeys.read(connection, oids ++ leaves.values.flatten.map(_.oid))
    published.groupBy(_.oid).toSeq.map { case (oid, sent) =>
      val table = sent.head
      val leavesOfTable = leaves.getOrElse(oid, Nil).map(leaf =>
        leaf.copy(key = keys.of(leaf.oid, leaf.identity))
      )
      val (sentColumns, unsentColumns) = columns.getOrElse(oid, Nil).partition(_.isSent)
      val columnsOfTable = sentColumns.map { case Column(column, _) =>
        val ofLeaf = leavesOfTable.exists(leaf => missing(leaf.oid -> column.name))
        column.copy(hasMissing = column.hasMissing || ofLeaf)
      }
      val key = keys.of(oid, table.identity)
      SourceTable(
        oid,
        table.name,
        columnsOfTable,
        unsentColumns.map(_.column.number),
        if (key.forall(name => columnsOfTable.exists(_.name == name))) key else Nil,
        table.identity,
        SourceTable.Operations.filter(isPublished(_, sent)),
        filter(sent.map(_.rowFilter)),
        table.fileNode,
        table.isPartitioned,
        leavesOfTable,
        horizon,
        sent.flatMap(_.memberships).distinct.sorted,
        sent.map(_.publication).toMap,
        table.attributes,
        isLocked = sent.exists(table => table.hasFilter && table.rowFilter.isEmpty)
      )
    }.sortBy(table => (table.name.namespace, table.name.name))
  }

  private def publishedTables: Seq[Membership] = {
    // pg_partition_ancestors returns no rows for a table that is neither partitioned nor a partition.
    val wanted = only.fold("true")(oid =>
      s"c.oid = $oid OR c.oid IN (SELECT relid FROM pg_partition_ancestors($oid))"
    )
    val ofSchemas =
      if (version < PublishedRelations.FirstWithSchemas) ""
      else
        """    UNION SELECT s.oid FROM pg_publication_namespace s
          |    JOIN pg_class parent ON parent.oid = ANY (up.oids || c.oid)
          |    WHERE pnpubid = p.oid AND pnnspid = parent.relnamespace""".stripMargin
    connection.query(
      s"""${PublishedRelations.of(version, filters)}
         |SELECT c.oid::bigint AS oid, n.nspname, c.relname, c.relkind = 'p' AS is_partitioned,
         |  c.relreplident, c.relfilenode::bigint AS file, c.relnatts,
         |  p.oid::bigint AS publication, p.xmin::text AS publication_version,
         |  array_to_string(up.oids, ' ') AS ancestors,
         |  array_to_string(ARRAY(
         |    SELECT r.oid FROM pg_publication_rel r
         |    WHERE prpubid = p.oid AND prrelid = ANY (up.oids || c.oid)
         |    UNION SELECT p.oid WHERE p.puballtables
         |$ofSchemas
         |  ), ' ') AS memberships,
         |  p.pubinsert, p.pubupdate, p.pubdelete, p.pubtruncate, t.row_filter,
         |  t.has_filter
         |FROM published t
         |JOIN pg_publication p ON p.oid = t.publication
         |JOIN pg_class c ON c.oid = t.relation
         |JOIN pg_namespace n ON n.oid = c.relnamespace
         |CROSS JOIN LATERAL (
         |  SELECT ARRAY(
         |    WITH RECURSIVE up (oid) AS (
         |      SELECT inhparent FROM pg_inherits WHERE inhrelid = c.oid AND c.relispartition
         |      UNION SELECT inhparent FROM pg_inherits JOIN up ON inhrelid = up.oid
         |    ) SELECT oid FROM up
         |  ) AS oids
         |) AS up
         |WHERE $wanted
         |ORDER BY p.pubname""".stripMargin,
      publications.toArray
    ) { row =>
      Membership(
        row.getLong("oid"),
        name(row),
        row.getBoolean("is_partitioned"),
        identity(row),
        row.getLong("file"),
        oids(row.getString("ancestors")).toSet,
        SourceTable.Operations.filter(operation => row.getBoolean(s"pub$operation")),
        Option(row.getString("row_filter")),
        oids(row.getString("memberships")),
        row.getLong("publication") -> row.getString("publication_version").toLong,
        row.getInt("relnatts"),
        row.getBoolean("has_filter")
      )
    }
  }

  private def oids(text: String) = text.split(" ").filter(_.nonEmpty).map(_.toLong).toSeq

  /** The tables without those whose changes come under the name of a root. */
  private def roots(published: Seq[Membership]): Seq[Membership] = {
    val oids = published.map(_.oid).toSet
    published.filterNot(_.ancestors.exists(oids))
  }

  /** A row is sent if it passes one of the filters. */
  private def filter(filters: Seq[Option[String]]): Option[String] =
    Option.when(filters.forall(_.isDefined)) {
      val conditions = filters.flatten.distinct
      if (conditions.length == 1) conditions.head else conditions.mkString("(", ") OR (", ")")
    }

  /**
   * Returns whether an operation is sent for all rows of the table. Each operation has the filters of the
   * publications that publish it.
   */
  private def isPublished(operation: String, sent: Seq[Membership]): Boolean = {
    val publishing = sent.filter(_.publish.contains(operation))
    publishing.nonEmpty && (operation == "truncate" ||
      filter(publishing.map(_.rowFilter)) == filter(sent.map(_.rowFilter)))
  }

  /** Returns the partitions that hold the rows of partitioned tables. */
  private def partitions(roots: Seq[Long]): Map[Long, Seq[Leaf]] =
    connection
      .query(
        // A partition can be attached with partitions of its own. The rows of system columns in
        // pg_attribute never change, so their xmin shows which transaction made a table.
        """WITH RECURSIVE tree (root, oid, links, attached) AS (
          |  SELECT oid, oid, ''::text, false FROM unnest(?::oid[]) AS root (oid)
          |  UNION ALL
          |  SELECT root, inhrelid, links || ' ' || i.xmin::text, attached OR i.xmin <> (
          |    SELECT a.xmin FROM pg_attribute a WHERE attrelid = inhrelid AND attnum = -1
          |  )
          |  FROM tree JOIN pg_inherits i ON inhparent = tree.oid AND NOT inhdetachpending
          |)
          |SELECT tree.root::bigint AS root, c.oid::bigint AS oid, n.nspname, c.relname,
          |  c.relfilenode::bigint AS file, c.relreplident, tree.links, tree.attached,
          |  c.relkind <> 'f' AND c.relpersistence = 'p' AS is_logged
          |FROM tree JOIN pg_class c ON c.oid = tree.oid AND c.relkind <> 'p'
          |JOIN pg_namespace n ON n.oid = c.relnamespace
          |ORDER BY c.oid""".stripMargin,
        array(roots)
      ) { row =>
        row.getLong("root") ->
          Leaf(
            row.getLong("oid"),
            name(row),
            row.getLong("file"),
            identity(row),
            row.getBoolean("attached"),
            row.getString("links").trim,
            row.getBoolean("is_logged")
          )
      }
      .groupMap(_._1)(_._2)

  private def tableColumns(tables: Seq[Long]): Map[Long, Seq[Column]] =
    connection
      .query(
        s"""${PublishedRelations.of(version)}
           |SELECT a.attrelid::bigint AS oid, a.attnum, a.attname, a.atttypid::bigint AS type,
           |  a.atttypmod, a.xmin::text AS version, a.atthasmissing,
           |  bool_or(${PublishedRelations.isSent(version, "a")}) AS is_sent
           |FROM published t
           |JOIN pg_attribute a ON a.attrelid = t.relation AND a.attnum > 0 AND NOT a.attisdropped
           |WHERE a.attrelid = ANY (?::oid[])
           |GROUP BY 1, 2, 3, 4, 5, 6, 7
           |ORDER BY a.attnum""".stripMargin,
        publications.toArray,
        array(tables)
      ) { row =>
        val column = TableColumn(
          row.getInt("attnum"),
          row.getString("attname"),
          row.getLong("type"),
          row.getInt("atttypmod"),
          row.getString("version").toLong,
          row.getBoolean("atthasmissing")
        )
        row.getLong("oid") -> Column(column, row.getBoolean("is_sent"))
      }
      .groupMap(_._1)(_._2)

  /** The tables and columns with a value for the rows from before ADD COLUMN … DEFAULT. */
  private def missingColumns(tables: Seq[Long]): Set[(Long, String)] =
    connection
      .query(
        "SELECT attrelid::bigint, attname FROM pg_attribute " +
          "WHERE attrelid = ANY (?::oid[]) AND atthasmissing",
        array(tables)
      )(row => row.getLong(1) -> row.getString(2))
      .toSet

  private def name(row: ResultSet) = TableName(row.getString("nspname"), row.getString("relname"))

  private def identity(row: ResultSet) = ReplicaIdentity.of(row.getString("relreplident").head)
}

/** Names in SQL that runs on the server. They are always quoted, because a name can be a key word. */
object QuotedName {
  def apply(name: String): String = SqlIdentifier.quoted(name)

  def apply(table: TableName): String = s"${apply(table.namespace)}.${apply(table.name)}"
}
