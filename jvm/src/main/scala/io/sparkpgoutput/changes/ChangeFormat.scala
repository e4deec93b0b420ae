package io.sparkpgoutput.changes

import org.apache.spark.sql.types._

import io.sparkpgoutput.types.ConversionOptions

/** How the columns of a table are given. */
sealed abstract class TableFormat {

  /** The columns. */
  def columns: StructType
}

object TableFormat {

  /**
   * Each by itself.
   *
   * @param ignoreOthers
   *   whether a column that the schema lacks, or whose type is another now, is left out or an error
   */
  final case class Columns(columns: StructType, ignoreOthers: Boolean, caseSensitive: Boolean)
      extends TableFormat

  /** PostgreSQL's text of each, by name. */
  case object AsMap extends TableFormat {
    override val columns: StructType = row(MapType(StringType, StringType))
  }

  /** All in one variant, by name. */
  case object AsVariant extends TableFormat {
    override val columns: StructType = row(VariantType)
  }

  private def row(dataType: DataType) = new StructType().add(ChangeSchema.Row, dataType)
}

/**
 * Which rows are made of changes, and what they have.
 *
 * @param table
 *   the table's columns
 * @param requiredColumns
 *   which of them rows are to have, in order
 * @param requiredFields
 *   which fields of [[ChangeSchema]] are to follow, in order
 * @param failFast
 *   whether a value that does not fit its type is an error, or NULL
 */
final case class ChangeFormat(
    table: TableFormat,
    requiredColumns: Seq[Int],
    requiredFields: Seq[Int],
    filter: ChangeFilter,
    options: ConversionOptions,
    failFast: Boolean
) {

  /** What rows have. */
  def rowType: StructType = StructType(
    requiredColumns.map(table.columns(_)) ++ requiredFields.map(ChangeSchema.schema(_))
  )
}

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
