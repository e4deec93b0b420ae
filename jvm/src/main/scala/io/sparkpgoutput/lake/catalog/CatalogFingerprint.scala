package io.sparkpgoutput.lake.catalog

import io.sparkpgoutput.source.connection.ServerConnection
import io.sparkpgoutput.source.table.PublishedRelations

/**
 * The transactions whose effects a query of the catalog saw: `pg_current_snapshot()` in the same statement.
 *
 * In recovery, a server has an incomplete list of the transactions that its primary runs: GetSnapshotData
 * (`procarray.c`) has them as subtransactions, which `pg_current_snapshot` leaves out. So the job decides
 * nothing by the snapshots of such a server.
 *
 * @param xmin all transactions with a lower xid had ended
 * @param xmax no transaction with this xid or a greater one had ended
 * @param inProgress the transactions in between that had not ended. All xids have 64 bits.
 */
final case class CatalogSnapshot(xmin: Long, xmax: Long, inProgress: Set[Long]) {

  /**
   * Returns whether the snapshot saw the effects of a committed transaction. A transaction that waits for a
   * synchronous standby is in the WAL, but it is in progress for all other sessions.
   *
   * @param xid
   *   the xid of a Begin message, which has 32 bits. It means the nearest xid to `xmax`, because
   *   transactions that the server still knows differ by at most 2^31.
   */
  def sees(xid: Long): Boolean = {
    val distance = (xid - xmax).toInt // with a sign, as TransactionIdPrecedes in `transam.c`
    val full = xmax + distance
    full < xmin || (full < xmax && !inProgress(full))
  }
}

object CatalogSnapshot {

  /** Reads the text of a `pg_snapshot`: `xmin:xmax:xid,xid`. */
  def of(text: String): CatalogSnapshot = {
    val Array(xmin, xmax, inProgress) = text.split(":", 3)
    val xids = inProgress.split(",").filter(_.nonEmpty).map(_.toLong).toSet
    CatalogSnapshot(xmin.toLong, xmax.toLong, xids)
  }
}

/**
 * The result of one cheap query of the catalog, which shows whether the published tables have changed.
 *
 * @param inRecovery whether the server is a standby, whose catalog can be behind
 * @param byOid
 *   a hash for each table that [[PublishedTables]] returns. It changes with what belongs to the table: its
 *   columns, types, unique indexes, partitions, schema, rights, and what publishes it. A table that is
 *   not published, or whose root is published now, is not in it.
 */
final case class CatalogFingerprint(
    snapshot: CatalogSnapshot,
    inRecovery: Boolean,
    byOid: Map[Long, String]
)

/**
 * The hash is over the oids and the xmins of rows of the catalog. Each change rewrites the row, with the xid
 * of its transaction as its xmin. The exceptions are the changes that VACUUM, ANALYZE and CREATE INDEX make
 * in place (`heap_inplace_update`). Equal hashes say that nothing has changed. A different hash can have a
 * cause that does not matter, such as a new trigger or a storage parameter.
 */
object CatalogFingerprint {

  /** Types with lower oids come with PostgreSQL, and nobody changes them (`transam.h`). */
  private val FirstNormalOid = 16384

  /**
   * Reads the fingerprints of tables. A publication that does not exist is not an error here: its tables are
   * not published.
   *
   * @param oids the wanted tables; None for all published tables
   */
  def read(
      connection: ServerConnection,
      publications: Seq[String],
      oids: Option[Seq[Long]]
  ): CatalogFingerprint = {
    val wanted = oids.map(PublishedTables.array)
    val rows = connection.query(
      query(connection.majorVersion, isLimited = wanted.isDefined),
      publications.toArray +: wanted.toSeq: _*
    ) { row =>
      val found = Option(row.getString("hash")).map(row.getLong("oid") -> _)
      (row.getString("snapshot"), row.getBoolean("in_recovery"), found)
    }
    val (snapshot, inRecovery, _) = rows.head
    CatalogFingerprint(CatalogSnapshot.of(snapshot), inRecovery, rows.flatMap(_._3).toMap)
  }

  /**
   * In the query, `up` has the partitioned tables above each published table, `tree` has each root with its
   * partitions, and `family` has both. `part` has the rows of the catalog that belong to a root, each with a
   * letter for its kind, two numbers that identify it, and its xmin.
   */
  private def query(version: Int, isLimited: Boolean) = {
    val limit = if (isLimited) "AND r.oid = ANY (?::oid[])" else ""
    val ofSchemas =
      if (version < PublishedRelations.FirstWithSchemas) ""
      else
        """  UNION ALL SELECT f.root, 's', s.oid, 0, s.xmin::text
          |  FROM family f JOIN pg_class c ON c.oid = f.oid
          |  JOIN pg_publication_namespace s ON s.pnnspid = c.relnamespace
          |  JOIN named ON named.oid = s.pnpubid""".stripMargin
    s"""${PublishedRelations.of(version)},
       |named AS MATERIALIZED (SELECT DISTINCT publication AS oid FROM published),
       |relation AS MATERIALIZED (SELECT DISTINCT relation AS oid FROM published),
       |up (oid, parent) AS (
       |  SELECT i.inhrelid, i.inhparent
       |  FROM relation r JOIN pg_class c ON c.oid = r.oid AND c.relispartition
       |  JOIN pg_inherits i ON i.inhrelid = r.oid
       |  UNION SELECT up.oid, i.inhparent FROM up JOIN pg_inherits i ON i.inhrelid = up.parent
       |),
       |root AS MATERIALIZED (
       |  SELECT r.oid FROM relation r WHERE NOT EXISTS (
       |    SELECT FROM up JOIN relation above ON above.oid = up.parent WHERE up.oid = r.oid
       |  ) $limit
       |),
       |tree (root, oid, kind) AS (
       |  SELECT c.oid, c.oid, c.relkind FROM root JOIN pg_class c ON c.oid = root.oid
       |  UNION SELECT tree.root, c.oid, c.relkind FROM tree
       |  JOIN pg_inherits i ON i.inhparent = tree.oid JOIN pg_class c ON c.oid = i.inhrelid
       |  WHERE tree.kind = 'p'
       |),
       |family (root, oid) AS (
       |  SELECT root, oid FROM tree UNION SELECT root.oid, up.parent FROM root JOIN up ON up.oid = root.oid
       |),
       |used (root, oid) AS (
       |  SELECT root.oid, a.atttypid FROM root JOIN pg_attribute a ON a.attrelid = root.oid
       |  WHERE a.attnum > 0 AND a.atttypid >= $FirstNormalOid
       |  UNION SELECT used.root, inner_type.oid
       |  FROM used JOIN pg_type t ON t.oid = used.oid CROSS JOIN LATERAL (
       |    SELECT t.typbasetype UNION ALL SELECT t.typelem
       |    UNION ALL SELECT atttypid FROM pg_attribute
       |    WHERE t.typtype = 'c' AND attrelid = t.typrelid AND attnum > 0
       |    UNION ALL SELECT rngsubtype FROM pg_range
       |    WHERE t.typtype IN ('r', 'm') AND t.oid IN (rngtypid, rngmultitypid)
       |  ) AS inner_type (oid) WHERE inner_type.oid >= $FirstNormalOid
       |),
       |part (root, kind, a, b, version) AS (
       |  SELECT t.root, 'c', c.oid, 0, c.xmin::text FROM tree t JOIN pg_class c ON c.oid = t.oid
       |  UNION ALL SELECT t.root, 'n', n.oid, 0, n.xmin::text
       |  FROM tree t JOIN pg_class c ON c.oid = t.oid JOIN pg_namespace n ON n.oid = c.relnamespace
       |  UNION ALL SELECT t.root, 'a', a.attrelid, a.attnum, a.xmin::text
       |  FROM tree t JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0
       |  UNION ALL SELECT t.root, 'i', i.indexrelid, 0, i.xmin::text
       |  FROM tree t JOIN pg_index i ON i.indrelid = t.oid AND i.indisunique
       |  UNION ALL SELECT f.root, 'h', i.inhrelid, i.inhparent::bigint, i.xmin::text
       |  FROM family f JOIN pg_inherits i ON i.inhrelid = f.oid
       |  UNION ALL SELECT t.root, 'p', p.oid, 0, p.xmin::text
       |  FROM tree t JOIN published s ON s.relation = t.oid JOIN pg_publication p ON p.oid = s.publication
       |  UNION ALL SELECT f.root, 'r', r.oid, 0, r.xmin::text
       |  FROM family f JOIN pg_publication_rel r ON r.prrelid = f.oid
       |  JOIN named ON named.oid = r.prpubid
       |$ofSchemas
       |  UNION ALL SELECT u.root, 't', t.oid, 0, t.xmin::text FROM used u JOIN pg_type t ON t.oid = u.oid
       |  UNION ALL SELECT u.root, 'e', e.oid, 0, e.xmin::text
       |  FROM used u JOIN pg_enum e ON e.enumtypid = u.oid
       |  UNION ALL SELECT u.root, 'k', k.oid, 0, k.xmin::text
       |  FROM used u JOIN pg_constraint k ON k.conrelid = 0 AND k.contypid = u.oid
       |  UNION ALL SELECT u.root, 'f', a.attrelid, a.attnum, a.xmin::text
       |  FROM used u JOIN pg_type t ON t.oid = u.oid AND t.typtype = 'c'
       |  JOIN pg_attribute a ON a.attrelid = t.typrelid AND a.attnum > 0
       |),
       |role (oid, version) AS (
       |  SELECT oid, concat(rolsuper, rolbypassrls, rolinherit) FROM pg_roles
       |  WHERE rolname = current_user
       |  UNION SELECT m.roleid, m.version FROM role JOIN (
       |    SELECT roleid, member, xmin::text AS version FROM pg_auth_members
       |  ) AS m ON m.member = role.oid
       |),
       |rights AS MATERIALIZED (
       |  SELECT string_agg(concat(oid, ':', version), ' ' ORDER BY oid, version) AS of_role FROM role
       |)
       |SELECT pg_current_snapshot()::text AS snapshot, pg_is_in_recovery() AS in_recovery,
       |  found.root::bigint AS oid, found.hash
       |FROM (SELECT) AS one LEFT JOIN (
       |  SELECT root, encode(sha256(convert_to(concat(
       |    (SELECT of_role FROM rights), ' ',
       |    string_agg(concat(kind, a, '.', b, ':', version), ' ' ORDER BY kind, a, b, version)
       |  ), 'UTF8')), 'hex') AS hash
       |  FROM part GROUP BY root
       |) AS found ON true""".stripMargin
  }
}
