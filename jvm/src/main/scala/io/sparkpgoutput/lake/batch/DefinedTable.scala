package io.sparkpgoutput.lake.batch

import java.util.Arrays

import io.sparkpgoutput.changes.rows.Relation
import io.sparkpgoutput.lake.table.ReplicaIdentity

/**
 * A table by one Relation message.
 *
 * @param message the Relation message
 * @param types the Type messages of its columns
 * @param number the number of the definition in the cut
 */
final private class DefinedTable(
    table: RoutedTable,
    val relation: Relation,
    message: Array[Byte],
    types: IndexedSeq[Array[Byte]],
    val number: Int
) {
  private val names = relation.columns.map(column => table.nameOf(column.name))
  val isFull: Boolean = relation.identity == ReplicaIdentity.Full.code

  /** True if the target has no column that the definition does not have. */
  val isComplete: Boolean = table.columns.forall(names.contains)

  /** True if rows are told apart by all of their values. */
  val keyIsRow: Boolean = isFull && table.key.isEmpty
  val isIdentity: Array[Boolean] = relation.columns.map(_.isKey).toArray
  val inKey: Array[Boolean] =
    if (isFull && !keyIsRow) names.map(table.key).toArray else isIdentity
  val hasKey: Boolean = inKey.contains(true)
  val isNumber: Array[Boolean] =
    names.map(name => !keyIsRow && table.numbers(name)).toArray
  val missingKey: Seq[String] = if (isFull) (table.key -- names).toSeq else Nil

  val unsent: Array[Boolean] = new Array[Boolean](names.length)
  var changes = 0L
  var updates = 0L

  /** The LSN of the first commit with an insert that did not send all values. */
  var partialInsert: Option[Long] = None

  def isSame(otherMessage: Array[Byte], otherTypes: IndexedSeq[Array[Byte]]): Boolean =
    Arrays.equals(message, otherMessage) && types.length == otherTypes.length &&
      types.zip(otherTypes).forall { case (one, other) => Arrays.equals(one, other) }

  def report: Definition =
    Definition(message, types, changes, updates, unsent.toIndexedSeq, partialInsert, missingKey)
}
