package io.sparkpgoutput.changes.rows

import io.sparkpgoutput.changes.{TableName, TablePattern}

/**
 * The changes of which rows are wanted.
 *
 * @param tables
 *   of these tables, each as the user names it; None for all
 * @param tableNames
 *   the names that the query asks for, as in the column `_table`; None for all
 * @param changeTypes
 *   the same of the column `_change_type`
 */
final case class ChangeFilter(
    tables: Option[Seq[TablePattern]] = None,
    tableNames: Option[Set[String]] = None,
    changeTypes: Option[Set[String]] = None
) {
  def keepsTable(table: TableName): Boolean =
    tables.forall(_.exists(_.matches(table))) && tableNames.forall(_.contains(table.toString))

  def keepsType(changeType: String): Boolean = changeTypes.forall(_.contains(changeType))

  /** What the query asks for, to be shown in plans. */
  def shown: Seq[String] = Seq("tables" -> tableNames, "types" -> changeTypes).collect {
    case (what, Some(names)) => names.toSeq.sorted.mkString(s"$what ", ", ", "")
  }
}
