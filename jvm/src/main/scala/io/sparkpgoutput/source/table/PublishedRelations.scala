package io.sparkpgoutput.source.table

/**
 * The tables of publications, as the view `pg_publication_tables` has them, in SQL that takes no locks.
 *
 * From version 16 on, the view opens each table, and so waits for an ALTER TABLE that waits for a copy,
 * for example. Only the text of a row filter cannot be had without opening its table (`pg_get_expr`).
 */
object PublishedRelations {
  final val FirstWithSchemas = 15
  final private val NewestKnown = 18

  /** Column lists and row filters */
  final private val FirstWithLists = 15

  /** From 18 on, publications can send generated columns too. */
  final val FirstWithGeneratedColumns = 18

  /**
   * Returns the beginning of a query, which has a table expression `published`: a row for each table of
   * the publications whose names the query has as its first parameter, with the oid of its
   * `publication` and of the `relation`, the `columns` that a list names, the `row_filter`, and
   * whether the publication sends generated columns. If a publication names the roots of partitioned
   * tables, the rows also have those partitions that it has by themselves, which the view leaves out.
   * `has_filter` says whether there is a row filter, also if it is not wanted.
   *
   * @param version the major version of the server
   * @param filters the tables whose row filters are wanted
   */
  def of(version: Int, filters: WantedFilters = WantedFilters.None): String =
    if (version > NewestKnown) ofView else ofCatalog(version, filters)

  /** A later server can have publications that the SQL below does not know. */
  private val ofView =
    """WITH RECURSIVE published AS (
      |  SELECT p.oid AS publication, c.oid AS relation, t.rowfilter AS row_filter,
      |    t.rowfilter IS NOT NULL AS has_filter,
      |    ARRAY(
      |      SELECT attnum FROM pg_attribute WHERE attrelid = c.oid AND attname = ANY (t.attnames)
      |    ) AS columns, false AS sends_generated
      |  FROM pg_publication_tables t JOIN pg_publication p ON p.pubname = t.pubname
      |  JOIN pg_namespace n ON n.nspname = t.schemaname
      |  JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename
      |  WHERE t.pubname = ANY (?)
      |)""".stripMargin

  private def ofCatalog(version: Int, filters: WantedFilters) = {
    val ofSchemas =
      if (version < FirstWithSchemas) ""
      else
        s"""  UNION SELECT w.oid, w.pubviaroot, c.oid, c.relkind
           |  FROM wanted w JOIN pg_publication_namespace ON pnpubid = w.oid
           |  JOIN pg_class c ON c.relnamespace = pnnspid AND $isPublishable
           |""".stripMargin
    val isOfSchema =
      if (version < FirstWithSchemas) "false"
      else
        "EXISTS (SELECT FROM pg_publication_namespace WHERE pnpubid = l.publication AND pnnspid = c.relnamespace)"
    val (columns, rowFilter, hasFilter) =
      if (version < FirstWithLists) ("NULL::int2vector", "NULL::text", "false")
      else
        (
          "r.prattrs",
          s"CASE WHEN r.prqual IS NOT NULL AND ${filters.sql} THEN pg_get_expr(r.prqual, r.prrelid) END",
          "r.prqual IS NOT NULL"
        )
    val generated =
      if (version < FirstWithGeneratedColumns) "false" else "w.pubgencols = 's'"
    s"""WITH RECURSIVE wanted AS (SELECT * FROM pg_publication WHERE pubname = ANY (?)),
       |member (publication, via_root, relation, kind) AS (
       |  SELECT w.oid, w.pubviaroot, c.oid, c.relkind FROM wanted w JOIN pg_class c
       |  ON w.puballtables AND $isPublishable
       |  AND CASE WHEN w.pubviaroot THEN NOT c.relispartition ELSE c.relkind = 'r' END
       |  UNION SELECT w.oid, w.pubviaroot, c.oid, c.relkind
       |  FROM wanted w JOIN pg_publication_rel ON prpubid = w.oid JOIN pg_class c ON c.oid = prrelid
       |$ofSchemas),
       |listed (publication, via_root, relation, kind) AS (
       |  SELECT * FROM member
       |  UNION SELECT publication, via_root, c.oid, c.relkind
       |  FROM listed l JOIN pg_inherits ON inhparent = l.relation AND NOT inhdetachpending
       |  JOIN pg_class c ON c.oid = inhrelid WHERE l.kind = 'p' AND NOT l.via_root
       |),
       |published AS (
       |  SELECT l.publication, l.relation, $columns AS columns, $rowFilter AS row_filter,
       |    $hasFilter AS has_filter, $generated AS sends_generated
       |  FROM listed l JOIN pg_class c ON c.oid = l.relation JOIN wanted w ON w.oid = l.publication
       |  LEFT JOIN pg_publication_rel r ON r.prpubid = l.publication AND r.prrelid = l.relation
       |    AND NOT w.puballtables AND NOT $isOfSchema
       |  WHERE l.via_root OR l.kind <> 'p'
       |)""".stripMargin
  }

  /**
   * Returns the condition that a publication sends a column.
   *
   * @param column the name of a row of `pg_attribute`, which is neither a system column nor dropped
   */
  def isSent(version: Int, column: String): String = {
    val unlisted =
      s"($column.attgenerated = '' OR t.sends_generated AND $column.attgenerated = 's')"
    val listed = s"$column.attnum = ANY (t.columns)" +
      (if (version < FirstWithGeneratedColumns) s" AND $column.attgenerated = ''" else "")
    s"CASE WHEN t.columns IS NULL THEN $unlisted ELSE $listed END"
  }

  /** `is_publishable_class` in `pg_publication.c` */
  private val isPublishable =
    "c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND c.oid >= 16384"
}

/**
 * The tables whose row filters are read. To read one, the server waits for the lock of its table.
 *
 * @param sql the condition of these tables, about a row `r` of `pg_publication_rel`
 */
final class WantedFilters private (val sql: String)

object WantedFilters {
  val None = new WantedFilters("false")
  val All = new WantedFilters("true")
  def of(oid: Long): WantedFilters = new WantedFilters(s"r.prrelid = $oid")

  /**
   * All, without the tables that another session has locked so that the server would wait. A session that has this
   * lock, or waits for it, keeps others from the text of a row filter. The server makes the list once, and only if
   * there are row filters.
   */
  val OfUnlocked = new WantedFilters(
    """(r.prrelid <> ALL (ARRAY(
      |  SELECT relation FROM pg_locks WHERE locktype = 'relation' AND mode = 'AccessExclusiveLock'
      |  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      |)))""".stripMargin
  )
}
