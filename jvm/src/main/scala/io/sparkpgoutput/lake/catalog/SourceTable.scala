package io.sparkpgoutput.lake.catalog

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.source.connection.ServerConnection
import io.sparkpgoutput.types.registry.BuiltInTypes

/**
 * A table as the publications send it, according to the server's catalog.
 *
 * @param oid
 *   the oid that changes have: that of the root if `publish_via_partition_root` is true
 * @param columns the columns that are sent, in the order of their numbers
 * @param unsent the numbers of the columns that the table has and the publications leave out
 * @param key
 *   the names of the columns that identify a row: the replica identity, or the primary key
 *   if the replica identity is FULL. Empty if there is no such key.
 * @param publish the operations that the publications send, as their option `publish` names them
 * @param rowFilter the row filter of the publications as an SQL condition
 * @param fileNode `relfilenode`, which a rewrite of the table changes. 0 for a partitioned table.
 * @param leaves the partitions that hold the rows. Empty if the table is not partitioned.
 * @param horizon all transactions whose xid is older had ended when the catalog was read
 * @param memberships
 *   the oids of the rows of `pg_publication_rel` and `pg_publication_namespace` that put the table into the
 *   publications, and the oids of publications of all tables. A table that is taken out and put back has
 *   other rows. Empty if it is not known.
 * @param publications
 *   the xmin of the rows of `pg_publication`, by their oids. If a publication is altered and altered back,
 *   its xmin is another one. Empty if it is not known.
 * @param attributes
 *   `relnatts`: the greatest number that a column has had, also one that is dropped. 0 if it is not
 *   known.
 * @param excluded the columns that are sent, and that the options exclude
 * @param isLocked
 *   whether the row filter is not known, because another session has locked the table. No state has such a table.
 */
final case class SourceTable(
    oid: Long,
    name: TableName,
    columns: Seq[TableColumn],
    unsent: Seq[Int],
    key: Seq[String],
    identity: ReplicaIdentity,
    publish: Seq[String],
    rowFilter: Option[String],
    fileNode: Long,
    isPartitioned: Boolean,
    leaves: Seq[Leaf],
    horizon: Long,
    memberships: Seq[Long] = Nil,
    publications: Map[Long, Long] = Map.empty,
    attributes: Int = 0,
    excluded: Seq[TableColumn] = Nil,
    isLocked: Boolean = false
) {

  /** The columns that the options exclude or hash. */
  def hidden: Seq[TableColumn] = excluded ++ columns.filter(_.isHashed)

  /** Excludes and hashes columns. */
  def hiding(
      isExcluded: TableColumn => Boolean,
      hash: TableColumn => Option[String]
  ): SourceTable = {
    val (excludedColumns, sent) = columns.partition(isExcluded)
    copy(columns = sent.map(column => column.copy(hash = hash(column))), excluded = excludedColumns)
  }

  /** Excludes and hashes the same columns as an earlier definition of the table. */
  def hidingAs(kept: SourceTable): SourceTable = {
    val excludedNumbers = kept.excluded.map(_.number).toSet
    val hashes = kept.columns.flatMap(column => column.hash.map(column.number -> _)).toMap
    hiding(column => excludedNumbers(column.number), column => hashes.get(column.number))
  }

  /** The tables that hold the rows: the partitions, or the table itself. */
  def files: Seq[Leaf] =
    if (isPartitioned) leaves else Seq(Leaf(oid, name, fileNode, identity, attached = false))

  /** The operations that the publications leave out. */
  def unpublished: Seq[String] = SourceTable.Operations.filterNot(publish.contains)
}

object SourceTable {

  /** All values of the option `publish` of a publication. */
  val Operations: Seq[String] = Seq("insert", "update", "delete", "truncate")
}

/**
 * A column of a table.
 *
 * @param number `attnum`, which stays when the column is renamed
 * @param modifier `atttypmod`
 * @param version
 *   the xmin of the column's row in `pg_attribute`, which each ALTER TABLE of the column changes
 * @param hasMissing
 *   `atthasmissing`: rows from before ADD COLUMN … DEFAULT have a value that no message has. For a
 *   partitioned table, it is the value of its partitions.
 * @param hash the fingerprint of the salt if the options hash the column
 */
final case class TableColumn(
    number: Int,
    name: String,
    typeId: Long,
    modifier: Int,
    version: Long,
    hasMissing: Boolean,
    hash: Option[String] = None
) {
  def isHashed: Boolean = hash.nonEmpty

  /** The type of the values that the job reads: a hash is a text. */
  def readType: Long = if (isHashed) TableColumn.Text else typeId
}

object TableColumn {

  /** The oid of `text`. */
  val Text: Long = oid("text")

  /** The oid of `"char"`. */
  val Char: Long = oid("char")

  /**
   * Whether the server has checked the encoding of each text of a type. It checks the texts that it stores, and not
   * what it prints for a "char" or for a type of an extension.
   */
  def isChecked(typeId: Long): Boolean =
    BuiltInTypes.byOid.get(typeId).exists(found => !Set("char", "char[]")(found.name))

  private def oid(name: String) = BuiltInTypes.all.find(_.pgType.name == name).get.oid
}

/**
 * A partition that holds rows.
 *
 * @param attached
 *   whether the table existed before it became a partition, so it can already have had rows
 * @param links
 *   the xmin of the rows of `pg_inherits` from the root to the partition. They change if the partition is
 *   detached and attached again. Empty if they are not known.
 * @param isLogged false for an unlogged or a foreign table, whose changes are not in the WAL
 * @param key
 *   the columns of the replica identity, by which the server sends old rows. Empty if there is no such key,
 *   or if it is not known. If the replica identity is FULL, the primary key.
 */
final case class Leaf(
    oid: Long,
    name: TableName,
    fileNode: Long,
    identity: ReplicaIdentity,
    attached: Boolean,
    links: String = "",
    isLogged: Boolean = true,
    key: Seq[String] = Nil
)

/**
 * The part of an old row that the server sends (`pg_class.relreplident`).
 *
 * @param sql what `ALTER TABLE … REPLICA IDENTITY` calls it
 */
sealed abstract class ReplicaIdentity(val code: Char, val sql: String)

object ReplicaIdentity {
  case object Default extends ReplicaIdentity('d', "DEFAULT")
  case object Index extends ReplicaIdentity('i', "USING INDEX")
  case object Full extends ReplicaIdentity('f', "FULL")

  /** `Nothing` is a type of Scala. */
  case object NoColumns extends ReplicaIdentity('n', "NOTHING")

  val all: Seq[ReplicaIdentity] = Seq(Default, Index, Full, NoColumns)

  def of(code: Char): ReplicaIdentity =
    all.find(_.code == code).getOrElse(
      throw new IllegalArgumentException(s"unknown replica identity '$code'")
    )
}

/** The columns of the keys of tables, by the oids of the tables. */
final private class IndexKeys(columns: Map[Long, Seq[IndexColumn]]) {

  /** Returns the key that changes of a table can be applied by. */
  def of(table: Long, replicaIdentity: ReplicaIdentity): Seq[String] = {
    val all = columns.getOrElse(table, Nil)
    val primary = all.filter(_.ofPrimary)
    val key = replicaIdentity match {
      case ReplicaIdentity.Default   => if (primary.forall(_.isImmediate)) primary else Nil
      case ReplicaIdentity.Index     => all.filter(_.ofIdentity)
      case ReplicaIdentity.Full      => primary
      case ReplicaIdentity.NoColumns => Nil
    }
    key.map(_.name)
  }
}

/**
 * A column of a key.
 *
 * @param ofPrimary whether the key is the primary key
 * @param isImmediate whether the key is not deferrable. A deferrable one is not a replica identity.
 * @param ofIdentity whether the key is the index that REPLICA IDENTITY USING INDEX names
 */
final private case class IndexColumn(
    name: String,
    ofPrimary: Boolean,
    isImmediate: Boolean,
    ofIdentity: Boolean
)

private object IndexKeys {

  /**
   * Returns the partitions that identify rows by other columns than their root. For an old row, the server
   * sends the columns that identify it in the partition, and describes it as a row of the root. For a
   * partition with REPLICA IDENTITY FULL, the server sends all columns. For a partition without a key, it
   * refuses updates and deletes.
   *
   * @param root the columns of the root's replica identity, which is not FULL
   */
  def otherLeaves(leaves: Seq[Leaf], root: Seq[String]): Seq[Leaf] = leaves.filter { leaf =>
    leaf.identity != ReplicaIdentity.Full && leaf.key.nonEmpty && !root.forall(leaf.key.contains)
  }

  /** The partitions of which the server sends old rows. It refuses updates and deletes of the others. */
  def withIdentity(leaves: Seq[Leaf]): Seq[Leaf] =
    leaves.filter(leaf => leaf.identity == ReplicaIdentity.Full || leaf.key.nonEmpty)

  /** Reads the keys of tables. */
  def read(connection: ServerConnection, tables: Seq[Long]): IndexKeys = {
    val columns = connection.query(
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
    new IndexKeys(columns.groupMap(_._1)(_._2))
  }
}
