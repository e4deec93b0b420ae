package io.sparkpgoutput.changes.rows

import io.sparkpgoutput.changes.{TableName, TablePattern}

/**
 * The changes whose rows are wanted.
 *
 * @param tables the tables of the option `tables`; None for all
 * @param tableNames the values of `_table` that the query asks for; None for all
 * @param changeTypes the values of `_change_type` that the query asks for; None for all
 */
final case class ChangeFilter(
    tables: Option[Seq[TablePattern]] = None,
    tableNames: Option[Set[String]] = None,
    changeTypes: Option[Set[String]] = None
) {
  def keepsTable(table: TableName): Boolean =
    tables.forall(_.exists(_.matches(table))) && tableNames.forall(_.contains(table.toString))

  def keepsType(changeType: String): Boolean = changeTypes.forall(_.contains(changeType))

  /** The part of the query's filter that a plan shows. */
  def shown: Seq[String] = Seq("tables" -> tableNames, "types" -> changeTypes).collect {
    case (what, Some(names)) => names.toSeq.sorted.mkString(s"$what ", ", ", "")
  }
}
