package io.sparkpgoutput.lake.table

import org.apache.spark.sql.types.StructType

import io.sparkpgoutput.types.registry.TypeRegistry

/**
 * A table of the server, and the table of the target that is kept equal to it.
 *
 * @param target the name of the table in the target
 * @param schema
 *   the columns of the target that come from the server, with the names and in the order of the source
 * @param types the types that columns have, as far as PostgreSQL does not fix their oids
 * @param mode what the target has of the table
 * @param chosen the columns whose types in the target are those of an option
 */
final case class MirroredTable(
    source: SourceTable,
    target: String,
    schema: StructType,
    types: TypeRegistry,
    mode: TableMode = TableMode.Mirror,
    chosen: Set[String] = Set.empty
) {
  def isHistory: Boolean = mode != TableMode.Mirror

  /** All columns that the job gives to the table of the target. */
  def targetSchema: StructType = StructType(schema ++ mode.columns)

  /** The columns by which rows of the target are found. Rows of a history are only added. */
  def targetKey: Seq[String] = if (isHistory) Nil else source.key
}

object MirroredTable {

  /** A table that is not mirrored. */
  def none(source: SourceTable): MirroredTable =
    MirroredTable(source, source.name.name, new StructType, TypeRegistry())
}
