package io.sparkpgoutput.lake.table

/** A change of a table that loses nothing if the target follows it. */
sealed trait TableChange

object TableChange {

  /** A new column, which is NULL in all rows that were there before. */
  final case class Added(column: SourceColumn) extends TableChange

  /** A column that is gone. It stays in the target, and new rows have NULL in it. */
  final case class Dropped(column: SourceColumn) extends TableChange

  /** A column with another name. */
  final case class Renamed(from: SourceColumn, to: SourceColumn) extends TableChange

  /** A column with a type that takes all values of the old one, for which no row was written anew. */
  final case class Widened(from: SourceColumn, to: SourceColumn) extends TableChange

  /** A new partition. [[TableEvidence]] tells if it has rows from before it became a partition. */
  final case class PartitionAdded(leaf: Leaf) extends TableChange

  /**
   * VACUUM FULL or CLUSTER has rewritten the table or a partition, unless [[TableEvidence]] finds
   * otherwise.
   */
  final case class Vacuumed(file: Leaf) extends TableChange

  /** A partition that was rewritten or truncated, as [[TableEvidence]] tells. */
  final case class PartitionRewritten(leaf: Leaf) extends TableChange
}
