package io.sparkpgoutput.lake.catalog

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.source.SqlIdentifier
import io.sparkpgoutput.source.connection.ServerConnection
import io.sparkpgoutput.source.table.PublishedRelations

/**
 * What is missing before the job can keep tables equal. Each text has the statement that corrects it.
 *
 * @param job what is missing for all tables, such as a right of the role to read a slot
 * @param tables what is missing for single tables, by their oids. A table that lacks nothing is not in it.
 */
final case class Readiness(job: Seq[String], tables: Map[Long, Seq[String]])

/**
 * Checks that the server writes what the stream needs, that the role of a connection can copy tables and
 * follow their changes, and that the publications send all changes. The connection itself shows that the
 * role may connect. The check runs the same number of queries, no matter how many tables there are.
 */
object ServerReadiness {

  /** Returns what is missing for the job, and for each table, each a text with the statement that corrects it. */
  def of(
      connection: ServerConnection,
      tables: Seq[SourceTable],
      publications: Seq[String]
  ): Readiness = new ServerReadiness(connection, tables, publications).result

  /**
   * Says what is wrong with the level of the WAL. From PostgreSQL 19 on, a server with the wal_level replica
   * raises its `effective_wal_level` to logical when it gets its first logical slot, and a standby follows.
   *
   * @param effective None before PostgreSQL 19
   */
  private[catalog] def walLevel(
      level: String,
      effective: Option[String],
      isStandby: Boolean
  ): Option[String] = {
    val rises = effective.contains("replica") && !isStandby
    Option.unless(effective.getOrElse(level) == "logical" || rises)(
      s"The server's wal_level is $level: ALTER SYSTEM SET wal_level = logical; and start the server again."
    )
  }

  /** The types whose values are equal if, and only if, their texts are. */
  private val ExactTypes: Array[String] =
    ("bool int2 int4 int8 oid text varchar name uuid bytea date time timetz timestamp timestamptz " +
      "inet cidr macaddr macaddr8 bit varbit").split(' ')

  /** @param operations the operations that the publication sends */
  final private case class Publication(oid: Long, name: String, operations: Set[String])
}

/** The check of some tables. */
final private class ServerReadiness(
    connection: ServerConnection,
    tables: Seq[SourceTable],
    publications: Seq[String]
) {
  import ServerReadiness.{ExactTypes, Publication}

  private val role = connection.query("SELECT current_user")(_.getString(1)).head
  private val publicationsOfJob = readPublications
  private val files = tables.flatMap(_.files)
  private val oidsOfFiles = PublishedTables.array(files.map(_.oid))

  def result: Readiness = {
    val ofServer = walLevel ++ replication ++ operationsOfAll
    val ofFiles = schemas ++ columns ++ policies ++ notLogged ++ hashedKeys
    val keys = IndexKeys.read(connection, tables.map(_.oid))
    val generated = generatedColumns
    val ofTables = tables.flatMap { table =>
      val key = keys.of(table.oid, table.identity)
      val problems = noColumn(table) ++ identity(table, key) ++
        unsentKey(table, key, generated.getOrElse(table.oid, Nil)) ++ operations(table)
      problems.map(table.oid -> _)
    }
    Readiness(ofServer, (ofFiles ++ ofTables).distinct.groupMap(_._1)(_._2))
  }

  private def walLevel: Seq[String] = connection.query(
    """SELECT current_setting('wal_level'), current_setting('effective_wal_level', true),
      |  pg_is_in_recovery()""".stripMargin
  )(row =>
    ServerReadiness.walLevel(row.getString(1), Option(row.getString(2)), row.getBoolean(3))
  ).flatten

  private def replication: Seq[String] = {
    val may = connection
      .query(
        """SELECT rolsuper OR rolreplication OR EXISTS (
          |  SELECT FROM pg_roles rds
          |  WHERE rds.rolname = 'rds_replication' AND pg_has_role(current_user, rds.oid, 'MEMBER')
          |) FROM pg_roles WHERE rolname = current_user""".stripMargin
      )(_.getBoolean(1))
      .head
    val name = SqlIdentifier(role)
    Option.when(!may)(
      s"The role cannot read a replication slot: ALTER ROLE $name REPLICATION; on Amazon RDS: GRANT " +
        s"rds_replication TO $name;"
    ).toSeq
  }

  private def schemas: Seq[(Long, String)] = {
    val hidden = connection.query(
      """SELECT nspname FROM pg_namespace
        |WHERE nspname = ANY (?) AND NOT has_schema_privilege(oid, 'USAGE')""".stripMargin,
      files.map(_.name.namespace).distinct.toArray
    )(_.getString(1)).toSet
    for {
      table <- tables
      schema <- table.files.map(_.name.namespace).distinct if hidden(schema)
      name = SqlIdentifier(schema)
    } yield table.oid ->
      s"The role cannot use the schema $name: GRANT USAGE ON SCHEMA $name TO ${SqlIdentifier(role)};"
  }

  /** Finds columns that are sent, or that a row filter reads, and that the role cannot read. */
  private def columns: Seq[(Long, String)] = {
    val hidden = hiddenColumns
    val ofFilters = if (hidden.isEmpty) Map.empty[Long, Seq[String]] else filterColumns
    for {
      table <- tables
      names = (table.columns.map(_.name) ++ ofFilters.getOrElse(table.oid, Nil)).distinct
      file <- table.files
      unread = hidden.getOrElse(file.oid, Nil).filter(names.contains) if unread.nonEmpty
    } yield {
      val all = unread.length == names.length
      val listed = unread.map(SqlIdentifier(_)).mkString(", ")
      val what = if (all) "" else s"the columns $listed of "
      val list = if (all) "" else s" ($listed)"
      val name = shown(file.name)
      table.oid ->
        s"The role cannot read $what$name: GRANT SELECT$list ON $name TO ${SqlIdentifier(role)};"
    }
  }

  /** The columns that the role cannot read, by the oids of their tables. */
  private def hiddenColumns = namesByOid(
    """SELECT a.attrelid::bigint, a.attname FROM pg_attribute a
      |WHERE a.attrelid = ANY (?::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
      |  AND NOT has_column_privilege(a.attrelid, a.attnum, 'SELECT')
      |ORDER BY a.attrelid, a.attnum""".stripMargin,
    oidsOfFiles
  )

  private def filterColumns = namesByOid(
    """SELECT d.refobjid::bigint, a.attname
      |FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid
      |JOIN pg_depend d ON d.classid = 'pg_publication_rel'::regclass AND d.objid = r.oid
      |  AND d.refclassid = 'pg_class'::regclass AND d.refobjsubid > 0
      |JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
      |WHERE p.pubname = ANY (?)""".stripMargin,
    publications.toArray
  )

  /** Returns the names of columns by the oids of their tables. */
  private def namesByOid(sql: String, parameter: Any): Map[Long, Seq[String]] =
    connection.query(sql, parameter)(row => row.getLong(1) -> row.getString(2))
      .groupMap(_._1)(_._2)

  private def policies: Seq[(Long, String)] = {
    val hiding = connection.query(
      "SELECT oid::bigint FROM pg_class WHERE oid = ANY (?::oid[]) AND row_security_active(oid)",
      oidsOfFiles
    )(_.getLong(1)).toSet
    for (table <- tables; file <- table.files if hiding(file.oid))
      yield table.oid ->
        (s"A policy hides rows of ${shown(file.name)} from the role, and the changes of all rows are sent: " +
          s"ALTER ROLE ${SqlIdentifier(role)} BYPASSRLS;")
  }

  /** Partitions whose changes are not in the WAL. */
  private def notLogged: Seq[(Long, String)] = {
    val foreign = connection.query(
      """SELECT oid::bigint, relkind = 'f' FROM pg_class
        |WHERE oid = ANY (?::oid[]) AND (relkind = 'f' OR relpersistence <> 'p')""".stripMargin,
      oidsOfFiles
    )(row => row.getLong(1) -> row.getBoolean(2)).toMap
    for {
      table <- tables
      file <- table.files
      isForeign <- foreign.get(file.oid)
    } yield {
      val name = shown(file.name)
      table.oid -> (
        if (isForeign)
          s"The partition $name is a foreign table, whose changes are not sent. Publish the partitions " +
            "under their own names: set publish_via_partition_root to false."
        else s"The changes of the unlogged table $name are not sent: ALTER TABLE $name SET LOGGED;"
      )
    }
  }

  /**
   * Finds hashed columns of keys whose equal values can have different texts, for example 1.0 and 1.00. The target
   * would get a row for each text.
   */
  private def hashedKeys: Seq[(Long, String)] = {
    val keys = tables.map(table =>
      table -> table.columns.filter(column => column.isHashed && table.key.contains(column.name))
    ).filter(_._2.nonEmpty)
    if (keys.isEmpty) Nil
    else {
      val inexact = inexactColumns(keys.map(_._1))
      for {
        (table, columns) <- keys
        column <- columns
        why <- inexact.get((table.oid, column.number))
      } yield table.oid ->
        (s"The column ${column.name} of the key of ${shown(table.name)} cannot be hashed, because equal values " +
          s"of $why can have different texts: take it out of the option hashColumns.${table.name}")
    }
  }

  /** The columns in which equal values can have different texts, each with its type or its collation. */
  private def inexactColumns(tables: Seq[SourceTable]) =
    connection
      .query(
        """WITH RECURSIVE base (type, relation, number, "collation") AS (
          |  SELECT atttypid, attrelid, attnum, attcollation FROM pg_attribute
          |  WHERE attrelid = ANY (?::oid[]) AND attnum > 0 AND NOT attisdropped
          |  UNION ALL SELECT t.typbasetype, relation, number, "collation"
          |  FROM base JOIN pg_type t ON t.oid = type AND t.typtype = 'd'
          |)
          |SELECT relation::bigint, number, format_type(t.oid, NULL) AS type,
          |  t.typtype = 'e' OR t.typnamespace = 'pg_catalog'::regnamespace
          |    AND t.typname = ANY (?) AS is_exact,
          |  c.collname, coalesce(c.collisdeterministic, true) AS is_deterministic
          |FROM base JOIN pg_type t ON t.oid = type AND t.typtype <> 'd'
          |LEFT JOIN pg_collation c ON c.oid = "collation"""".stripMargin,
        PublishedTables.array(tables.map(_.oid)),
        ExactTypes
      ) { row =>
        val why =
          if (!row.getBoolean("is_exact")) Some(s"the type ${row.getString("type")}")
          else if (!row.getBoolean("is_deterministic"))
            Some(s"the collation ${row.getString("collname")}")
          else None
        why.map((row.getLong("relation"), row.getInt("number")) -> _)
      }
      .flatten
      .toMap

  private def noColumn(table: SourceTable): Seq[String] = Option.when(table.columns.isEmpty) {
    val name = shown(table.name)
    s"The table $name has no column that is sent: give it one with ALTER TABLE $name ADD COLUMN, or " +
      "leave the table out with the option excludeTables."
  }.toSeq

  /**
   * Finds partitions whose replica identity is not that of their root. The server sends the old row by
   * the identity of the partition, but describes it by the identity of the root.
   *
   * @param key the columns of the root's replica identity
   */
  private def identity(table: SourceTable, key: Seq[String]): Seq[String] = {
    val root = shown(table.name)
    if (table.identity == ReplicaIdentity.Full) notFull(table).map { leaf =>
      s"The table $root has REPLICA IDENTITY FULL, but its partition does not: ${full(leaf.name)}"
    }
    else if (key.isEmpty) IndexKeys.withIdentity(table.leaves).headOption.map { leaf =>
      val columns = leaf.key.map(SqlIdentifier(_)).mkString(", ")
      val how = if (leaf.identity == ReplicaIdentity.Full) "the whole row" else s"($columns)"
      val all = (table.name +: notFull(table).map(_.name)).map(full).mkString(" ")
      val primary =
        if (leaf.identity == ReplicaIdentity.Full) ""
        else s"ALTER TABLE $root ADD PRIMARY KEY ($columns); or "
      s"The partition ${shown(leaf.name)} identifies rows by $how, and its table $root has no key, so that " +
        s"its updates and deletes cannot be applied: $primary$all"
    }.toSeq
    else IndexKeys.otherLeaves(table.leaves, key).map { leaf =>
      s"The partition ${shown(leaf.name)} identifies rows by (${leaf.key.mkString(", ")}), and its table " +
        s"$root by (${key.mkString(", ")}): ${full(leaf.name)}"
    }
  }

  private def notFull(table: SourceTable) =
    table.leaves.filterNot(_.identity == ReplicaIdentity.Full)

  private def full(table: TableName) = s"ALTER TABLE ${shown(table)} REPLICA IDENTITY FULL;"

  /**
   * Finds a key that the publications send only in part. The server sends this part as the key, and no row
   * can be found by it. If a generated column is the whole key, a server before PostgreSQL 18 takes updates,
   * and sends no key. A later server refuses them, even with REPLICA IDENTITY FULL, unless it publishes the
   * column.
   */
  private def unsentKey(
      table: SourceTable,
      key: Seq[String],
      generated: Seq[String]
  ): Seq[String] = {
    val (there, unsent) = key.partition(table.columns.map(_.name).toSet)
    val isGenerated = unsent.exists(generated.contains)
    val isFull = table.identity == ReplicaIdentity.Full
    val publishes =
      isGenerated && connection.majorVersion >= PublishedRelations.FirstWithGeneratedColumns
    Option.when(unsent.nonEmpty && (there.nonEmpty || isGenerated) && (!isFull || publishes)) {
      val named = unsent.map(SqlIdentifier(_)).mkString(", ")
      val remedy =
        if (publishes)
          s"ALTER PUBLICATION ${SqlIdentifier(publicationsOf(table).head.name)} " +
            "SET (publish_generated_columns = stored);"
        else full(table.name)
      s"The publications do not send the columns $named of the key of ${shown(table.name)}: $remedy"
    }.toSeq
  }

  /** The stored generated columns of tables, by their oids. */
  private def generatedColumns = namesByOid(
    "SELECT attrelid::bigint, attname FROM pg_attribute " +
      "WHERE attrelid = ANY (?::oid[]) AND attgenerated = 's' AND NOT attisdropped",
    PublishedTables.array(tables.map(_.oid))
  )

  private def readPublications: Seq[Publication] = {
    val operations = SourceTable.Operations
    connection.query(
      operations.map(name => s", pub$name").mkString("SELECT oid::bigint, pubname", "", " ") +
        "FROM pg_publication WHERE pubname = ANY (?) ORDER BY pubname",
      publications.toArray
    )(row =>
      Publication(
        row.getLong("oid"),
        row.getString("pubname"),
        operations.filter(name => row.getBoolean(s"pub$name")).toSet
      )
    )
  }

  /** The publications that have a table. */
  private def publicationsOf(table: SourceTable): Seq[Publication] = {
    val ofTable =
      publicationsOfJob.filter(publication => table.publications.contains(publication.oid))
    if (ofTable.isEmpty) publicationsOfJob else ofTable
  }

  private def operationsOfAll: Seq[String] = {
    val unsent =
      SourceTable.Operations.filterNot(name => publicationsOfJob.exists(_.operations(name)))
    Option.when(unsent.nonEmpty)(
      s"The publications leave out the changes of all tables by ${unsent.mkString(", ")}: " +
        allOperations(publicationsOfJob.head)
    ).toSeq
  }

  private def operations(table: SourceTable): Seq[String] = {
    val unsent = table.unpublished
    val own = publicationsOf(table)
    Option.when(unsent.nonEmpty)(
      s"The publications leave out the changes of ${shown(table.name)} by ${unsent.mkString(", ")}, and all " +
        "tables of a publication that you alter are copied again: " +
        allOperations(own.find(found => !unsent.forall(found.operations)).getOrElse(own.head))
    ).toSeq
  }

  private def allOperations(publication: Publication) =
    s"ALTER PUBLICATION ${SqlIdentifier(publication.name)} SET (publish = " +
      s"'${SourceTable.Operations.mkString(", ")}');"

  private def shown(table: TableName) =
    s"${SqlIdentifier(table.namespace)}.${SqlIdentifier(table.name)}"
}
