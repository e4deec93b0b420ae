package io.sparkpgoutput.changes.rows

import org.apache.spark.sql.types._

import io.sparkpgoutput.types.ConversionOptions
import io.sparkpgoutput.types.registry.TypeRegistry

/**
 * The rows that are made of changes, and their columns.
 *
 * @param table the form of the table's columns
 * @param requiredColumns the ordinals of the table's columns that rows have, in order
 * @param requiredFields the ordinals of the fields of [[ChangeSchema]] that follow, in order
 */
final case class ChangeFormat(
    table: TableFormat,
    requiredColumns: Seq[Int],
    requiredFields: Seq[Int],
    filter: ChangeFilter,
    options: ConversionOptions,
    types: TypeRegistry,
    failFast: Boolean
) {

  /** The columns of the rows. */
  def rowType: StructType = StructType(
    requiredColumns.map(table.columns(_)) ++ requiredFields.map(ChangeSchema.schema(_))
  )

  /** The format of rows with only those of its columns that have these names, in its own order. */
  def select(names: Set[String]): ChangeFormat = copy(
    requiredColumns = requiredColumns.filter(index => names(table.columns(index).name)),
    requiredFields = requiredFields.filter(index => names(ChangeSchema.schema(index).name))
  )
}
