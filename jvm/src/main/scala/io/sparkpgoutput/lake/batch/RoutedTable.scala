package io.sparkpgoutput.lake.batch

import org.apache.spark.sql.types.NumericType

import io.sparkpgoutput.lake.table.MirroredTable

/**
 * A table whose changes are taken out of the messages of a cut.
 *
 * @param mark the transactions with a lower commit LSN are in the target already
 * @param columns the columns of the target that come from the server
 * @param key
 *   the columns by which rows are found if the replica identity is FULL. In all other cases the
 *   Relation message tells them.
 * @param numbers the columns of the target in which two texts can be the same number
 * @param names the column of the target for each name at the server that is not the target's
 * @param isKept
 *   true gives all changes as messages, in order, with the beginnings of their transactions. Then
 *   only the oid and the mark count.
 */
final case class RoutedTable(
    oid: Long,
    mark: Long,
    columns: Set[String],
    key: Set[String],
    numbers: Set[String],
    names: Map[String, String],
    isKept: Boolean = false
) {

  /** The column of the target for a column at the server. */
  def nameOf(column: String): String = names.getOrElse(column, column)
}

object RoutedTable {

  /** Returns a table whose changes are all kept, instead of their net effect on rows. */
  private def kept(oid: Long, mark: Long): RoutedTable =
    RoutedTable(oid, mark, Set.empty, Set.empty, Set.empty, Map.empty, isKept = true)

  def of(table: MirroredTable, mark: Long, names: Map[String, String]): RoutedTable =
    if (table.isHistory) kept(table.source.oid, mark)
    else
      RoutedTable(
        table.source.oid,
        mark,
        table.schema.fieldNames.toSet,
        table.source.key.toSet,
        table.schema.filter(_.dataType.isInstanceOf[NumericType]).map(_.name).toSet,
        names
      )
}
