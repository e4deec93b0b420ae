package io.sparkpgoutput.lake.table

import io.sparkpgoutput.source.connection.ServerConnection

/**
 * The columns by which rows of a table can be told apart.
 *
 * @param primary the primary key
 * @param isImmediate
 *   whether the primary key is not deferrable. A deferrable one is no replica identity.
 * @param identity the columns of the index that REPLICA IDENTITY USING INDEX names
 */
final private case class TableKeys(
    primary: Seq[String],
    isImmediate: Boolean,
    identity: Seq[String]
) {

  /** The key that changes can be applied by. */
  def of(replicaIdentity: ReplicaIdentity): Seq[String] = replicaIdentity match {
    case ReplicaIdentity.Default => if (isImmediate) primary else Nil
    case ReplicaIdentity.Index   => identity
    case ReplicaIdentity.Full    => primary
    case ReplicaIdentity.Nothing => Nil
  }
}

private object TableKeys {

  /**
   * Returns the partitions that identify rows by other columns than their root. The server sends an old
   * row by the columns of the partition, and describes it as one of the root. One with REPLICA IDENTITY
   * FULL sends all columns, and of one without a key the server refuses updates and deletes.
   *
   * @param root the columns of the root's replica identity, which is not FULL
   */
  def otherLeaves(leaves: Seq[Leaf], root: Seq[String]): Seq[Leaf] = leaves.filter { leaf =>
    leaf.identity != ReplicaIdentity.Full && leaf.key.nonEmpty && !root.forall(leaf.key.contains)
  }

  /** The partitions of which the server sends old rows. It refuses updates and deletes of the others. */
  def withIdentity(leaves: Seq[Leaf]): Seq[Leaf] =
    leaves.filter(leaf => leaf.identity == ReplicaIdentity.Full || leaf.key.nonEmpty)

  /** Reads the keys of tables by their oids. */
  def read(connection: ServerConnection, tables: Seq[Long]): Map[Long, TableKeys] =
    connection
      .query(
        """SELECT i.indrelid::bigint AS oid, i.indisprimary, i.indimmediate, i.indisreplident, a.attname
          |FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k (number, place)
          |JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
          |WHERE i.indrelid = ANY (?::oid[]) AND (i.indisprimary OR i.indisreplident)
          |  AND i.indisvalid AND k.place <= i.indnkeyatts
          |ORDER BY k.place""".stripMargin,
        PublishedTables.array(tables)
      ) { row =>
        row.getLong("oid") -> IndexColumn(
          row.getString("attname"),
          row.getBoolean("indisprimary"),
          row.getBoolean("indimmediate"),
          row.getBoolean("indisreplident")
        )
      }
      .groupMap(_._1)(_._2)
      .map { case (oid, columns) =>
        val primary = columns.filter(_.ofPrimary)
        oid -> TableKeys(
          primary.map(_.name),
          primary.forall(_.isImmediate),
          columns.filter(_.ofIdentity).map(_.name)
        )
      }

  final private case class IndexColumn(
      name: String,
      ofPrimary: Boolean,
      isImmediate: Boolean,
      ofIdentity: Boolean
  )
}
