package io.sparkpgoutput.lake.table

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.source.SqlIdentifier
import io.sparkpgoutput.source.connection.ServerConnection

/**
 * Checks that the server writes what the stream needs, that the role of a connection can copy tables and
 * follow their changes, and that the publications send all changes. The connection itself shows that the
 * role may connect.
 */
object ServerReadiness {

  /** Fails with one error that names everything that is missing. */
  def check(
      connection: ServerConnection,
      tables: Seq[SourceTable],
      publications: Seq[String]
  ): Unit = {
    val problems = missing(connection, tables, publications)
    if (problems.nonEmpty) throw TableError.notReady(problems)
  }

  /** Returns what is missing, each a text with the statement that mends it. */
  def missing(
      connection: ServerConnection,
      tables: Seq[SourceTable],
      publications: Seq[String]
  ): Seq[String] = {
    val role = connection.query("SELECT current_user")(_.getString(1)).head
    val files = tables.flatMap(_.files)
    walLevel(connection) ++
      replication(connection, role) ++
      schemas(connection, role, files) ++
      columns(connection, role, tables, publications) ++
      policies(connection, role, files) ++
      notLogged(connection, files) ++
      tables.flatMap(identity(connection, _)) ++
      keys(connection, tables) ++
      tables.filter(_.columns.isEmpty).map(table =>
        s"The table ${shown(table.name)} has no column that is sent. Leave it out of the publications."
      ) ++
      tables.flatMap(operations(_, publications))
  }

  private def walLevel(connection: ServerConnection): Seq[String] = {
    val level = connection.query("SELECT current_setting('wal_level')")(_.getString(1)).head
    Option.when(level != "logical")(
      s"The server's wal_level is $level: ALTER SYSTEM SET wal_level = logical; and start the server again."
    ).toSeq
  }

  private def replication(connection: ServerConnection, role: String): Seq[String] = {
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

  private def schemas(connection: ServerConnection, role: String, files: Seq[Leaf]): Seq[String] =
    connection.query(
      """SELECT nspname FROM pg_namespace
        |WHERE nspname = ANY (?) AND NOT has_schema_privilege(oid, 'USAGE')
        |ORDER BY nspname""".stripMargin,
      files.map(_.name.namespace).distinct.toArray
    ) { row =>
      val name = SqlIdentifier(row.getString(1))
      s"The role cannot use the schema $name: GRANT USAGE ON SCHEMA $name TO ${SqlIdentifier(role)};"
    }

  /** The columns that are sent, and those that a row filter reads. */
  private def columns(
      connection: ServerConnection,
      role: String,
      tables: Seq[SourceTable],
      publications: Seq[String]
  ): Seq[String] = {
    val ofFilters = filterColumns(connection, publications)
    tables.flatMap { table =>
      val names = table.columns.map(_.name) ++ ofFilters.getOrElse(table.oid, Nil)
      table.files.flatMap { file =>
        val hidden = connection.query(
          """SELECT attname FROM pg_attribute
            |WHERE attrelid = ?::oid AND attname = ANY (?) AND attnum > 0 AND NOT attisdropped
            |  AND NOT has_column_privilege(attrelid, attnum, 'SELECT')
            |ORDER BY attnum""".stripMargin,
          file.oid,
          names.distinct.toArray
        )(_.getString(1))
        Option.when(hidden.nonEmpty) {
          val all = hidden.length == names.distinct.length
          val listed = hidden.map(SqlIdentifier(_)).mkString(", ")
          val what = if (all) "" else s"the columns $listed of "
          val list = if (all) "" else s" ($listed)"
          val name = shown(file.name)
          s"The role cannot read $what$name: GRANT SELECT$list ON $name TO ${SqlIdentifier(role)};"
        }
      }
    }
  }

  private def filterColumns(connection: ServerConnection, publications: Seq[String]) =
    connection
      .query(
        """SELECT d.refobjid::bigint, a.attname
          |FROM pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid
          |JOIN pg_depend d ON d.classid = 'pg_publication_rel'::regclass AND d.objid = r.oid
          |  AND d.refclassid = 'pg_class'::regclass AND d.refobjsubid > 0
          |JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
          |WHERE p.pubname = ANY (?)""".stripMargin,
        publications.toArray
      )(row => row.getLong(1) -> row.getString(2))
      .groupMap(_._1)(_._2)

  private def policies(connection: ServerConnection, role: String, files: Seq[Leaf]): Seq[String] =
    connection.query(
      "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace " +
        "WHERE c.oid = ANY (?::oid[]) AND row_security_active(c.oid) ORDER BY 1, 2",
      PublishedTables.array(files.map(_.oid))
    ) { row =>
      val name = shown(TableName(row.getString(1), row.getString(2)))
      s"A policy hides rows of $name from the role, and the changes of all rows are sent: ALTER ROLE " +
        s"${SqlIdentifier(role)} BYPASSRLS;"
    }

  /** Partitions whose changes are not in the WAL. */
  private def notLogged(connection: ServerConnection, files: Seq[Leaf]): Seq[String] =
    connection.query(
      """SELECT n.nspname, c.relname, c.relkind = 'f' AS is_foreign
        |FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        |WHERE c.oid = ANY (?::oid[]) AND (c.relkind = 'f' OR c.relpersistence <> 'p')
        |ORDER BY 1, 2""".stripMargin,
      PublishedTables.array(files.map(_.oid))
    ) { row =>
      val name = shown(TableName(row.getString(1), row.getString(2)))
      if (row.getBoolean("is_foreign"))
        s"The partition $name is a foreign table, whose changes are not sent. Publish the partitions " +
          "under their own names: set publish_via_partition_root to false."
      else s"The changes of the unlogged table $name are not sent: ALTER TABLE $name SET LOGGED;"
    }

  /**
   * Finds roots whose replica identity is not that of a partition. The server sends the old row by
   * the identity of the partition, but describes it by the identity of the root.
   */
  private def identity(connection: ServerConnection, table: SourceTable): Seq[String] = {
    val others = table.leaves.filterNot(_.identity == ReplicaIdentity.Full)
    if (others.isEmpty) Nil
    else if (table.identity == ReplicaIdentity.Full) others.map { leaf =>
      s"The table ${shown(table.name)} has REPLICA IDENTITY FULL, but its partition does not: ALTER TABLE " +
        s"${shown(leaf.name)} REPLICA IDENTITY FULL;"
    }
    else {
      val keys = TableKeys.read(connection, table.oid +: others.map(_.oid))
      def key(oid: Long, identity: ReplicaIdentity) =
        keys.get(oid).fold(Seq.empty[String])(_.of(identity))
      val root = key(table.oid, table.identity)
      others.flatMap { leaf =>
        val own = key(leaf.oid, leaf.identity)
        // Without a key of its own, the server refuses updates and deletes.
        Option.when(root.nonEmpty && own.nonEmpty && !root.forall(own.contains))(
          s"The partition ${shown(leaf.name)} identifies rows by (${own.mkString(", ")}), and its table " +
            s"${shown(table.name)} by (${root.mkString(", ")}): ALTER TABLE ${shown(leaf.name)} REPLICA " +
            "IDENTITY FULL;"
        )
      }
    }
  }

  /** A row cannot be found by a part of its key, and the server sends that part as the key. */
  private def keys(connection: ServerConnection, tables: Seq[SourceTable]): Seq[String] = {
    val known = TableKeys.read(connection, tables.map(_.oid))
    tables.filter(_.identity != ReplicaIdentity.Full).flatMap { table =>
      val sent = table.columns.map(_.name).toSet
      val (there, unsent) = known.get(table.oid).fold(Seq.empty[String])(_.of(table.identity))
        .partition(sent)
      Option.when(there.nonEmpty && unsent.nonEmpty)(
        s"The publications do not send the columns ${unsent.map(SqlIdentifier(_)).mkString(", ")} of the " +
          s"key: ALTER TABLE ${shown(table.name)} REPLICA IDENTITY FULL;"
      )
    }
  }

  private def operations(table: SourceTable, publications: Seq[String]): Option[String] =
    Option.when(table.unpublished.nonEmpty) {
      s"The publications leave out the changes of ${shown(table.name)} by " +
        s"${table.unpublished.mkString(", ")}: ALTER PUBLICATION ${SqlIdentifier(publications.head)} " +
        s"SET (publish = '${SourceTable.Operations.mkString(", ")}');"
    }

  private def shown(table: TableName) =
    s"${SqlIdentifier(table.namespace)}.${SqlIdentifier(table.name)}"
}
