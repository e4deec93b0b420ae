package io.sparkpgoutput.changes.rows

import org.apache.spark.sql.types._

import io.sparkpgoutput.types.ConversionOptions
import io.sparkpgoutput.types.registry.TypeRegistry

/**
 * Which rows are made of changes, and what they have.
 *
 * @param table
 *   the table's columns
 * @param requiredColumns
 *   which of them rows are to have, in order
 * @param requiredFields
 *   which fields of [[ChangeSchema]] are to follow, in order
 * @param types
 *   the types that columns can have
 * @param failFast
 *   whether a value that does not fit its type is an error, or NULL
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

  /** What rows have. */
  def rowType: StructType = StructType(
    requiredColumns.map(table.columns(_)) ++ requiredFields.map(ChangeSchema.schema(_))
  )
}
