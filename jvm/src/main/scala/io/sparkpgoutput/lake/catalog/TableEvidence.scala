package io.sparkpgoutput.lake.catalog

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.lake.catalog.TableChange.{PartitionAdded, PartitionRewritten, Vacuumed}
import io.sparkpgoutput.source.connection.ServerConnection

/**
 * Looks at the rows of tables for what the catalog does not show. The server sends no message of a
 * TRUNCATE of one partition if changes come under the name of the root, and no rows that a table had
 * before it became a partition. A statement that truncates all of several partitions by their names looks
 * like a TRUNCATE of the root.
 */
object TableEvidence {

  /**
   * Returns why the changes that [[TableComparison]] found are not all that happened to a table, a
   * sentence; None if they are.
   */
  def reason(
      connection: ServerConnection,
      kept: SourceTable,
      changes: Seq[TableChange]
  ): Option[String] = {
    val doubtful = changes.collect {
      case PartitionRewritten(leaf) => leaf
      case Vacuumed(leaf)           => leaf
      case PartitionAdded(leaf)     => leaf
    }
    doubtful.find(!isReadable(connection, _)).map { leaf =>
      s"${leaf.name} was made, truncated or rewritten, and the role cannot look at its rows, which needs " +
        "SELECT on the table and not only on columns."
    }.orElse(ofRows(connection, kept, changes))
  }

  /** System columns, such as `xmin`, need SELECT on the table. */
  private def isReadable(connection: ServerConnection, leaf: Leaf) =
    connection
      .query("SELECT has_table_privilege(?::oid, 'SELECT') IS NOT FALSE", leaf.oid)(_.getBoolean(1))
      .head

  private def ofRows(
      connection: ServerConnection,
      kept: SourceTable,
      changes: Seq[TableChange]
  ): Option[String] = {
    val rewritten = changes.collect { case PartitionRewritten(leaf) => leaf }
    // TRUNCATE of the root truncates all partitions, and is sent.
    val emptied =
      rewritten.filterNot(leaf => hasRowFrom(connection, leaf.name, kept.horizon))
    val ofSome = emptied.headOption.filter(_ =>
      emptied.length < kept.leaves.length || !isOneStatement(connection, emptied)
    )
    ofSome.map { leaf =>
      s"The partition ${leaf.name} was truncated, or has none of its rows from before, and no message " +
        "tells it."
    }.orElse(changes.collectFirst {
      case Vacuumed(file) if isRewritten(connection, file.name, kept.horizon) =>
        s"ALTER TABLE has rewritten ${file.name}, and the values of a column can have changed."
      // The file of a new table has the number of its oid, until TRUNCATE or VACUUM FULL.
      case PartitionAdded(leaf) if leaf.fileNode != leaf.oid =>
        s"The new partition ${leaf.name} was truncated or rewritten, and no message tells which rows " +
          "it lost."
      case PartitionAdded(leaf) if hasRowFromBefore(connection, leaf) =>
        s"The partition ${leaf.name} had rows before it became one, and no message tells them."
    })
  }

  /**
   * Returns whether one transaction has truncated several partitions. TRUNCATE rewrites their rows of
   * `pg_class`, and VACUUM and ANALYZE do not.
   */
  private def isOneStatement(connection: ServerConnection, leaves: Seq[Leaf]) =
    leaves.length > 1 && connection
      .query(
        "SELECT count(DISTINCT xmin::text) FROM pg_class WHERE oid = ANY (?::oid[])",
        PublishedTables.array(leaves.map(_.oid))
      )(_.getInt(1))
      .head == 1

  /** Returns whether a table has a row that an older transaction wrote, as VACUUM FULL leaves it. */
  private def hasRowFrom(connection: ServerConnection, table: TableName, horizon: Long) =
    connection
      .query(
        s"SELECT EXISTS (SELECT FROM ONLY ${QuotedName(table)} WHERE age(xmin) > age(?::xid))",
        horizon.toString
      )(_.getBoolean(1))
      .head

  /** Returns whether a table has rows, and none that an older transaction wrote. */
  private def isRewritten(connection: ServerConnection, table: TableName, horizon: Long) =
    !hasRowFrom(connection, table, horizon) &&
      connection.query(
        s"SELECT EXISTS (SELECT FROM ONLY ${QuotedName(table)})"
      )(_.getBoolean(1)).head

  /** Returns whether the transaction that made a partition wrote rows before it did so. */
  private def hasRowFromBefore(connection: ServerConnection, leaf: Leaf) =
    connection
      .query(
        s"""WITH RECURSIVE up (oid, version, command) AS (
           |  SELECT inhparent, xmin, cmin::text::bigint FROM pg_inherits WHERE inhrelid = ?::oid
           |  UNION ALL
           |  SELECT inhparent, i.xmin, i.cmin::text::bigint
           |  FROM pg_inherits i JOIN up ON i.inhrelid = up.oid
           |)
           |SELECT EXISTS (
           |  SELECT FROM ONLY ${QuotedName(leaf.name)} AS t JOIN up ON t.xmin = up.version
           |  WHERE t.cmin::text::bigint < up.command
           |)""".stripMargin,
        leaf.oid
      )(_.getBoolean(1))
      .head
}
