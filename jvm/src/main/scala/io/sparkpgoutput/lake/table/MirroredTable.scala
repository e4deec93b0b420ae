package io.sparkpgoutput.lake.table

import org.apache.spark.sql.types.StructType

import io.sparkpgoutput.types.registry.TypeRegistry

/**
 * A table of the server, and the table of the target that is kept equal to it.
 *
 * @param target
 *   the name of the table in the target
 * @param schema
 *   the columns of the target that come from the server, with the names and in the order of the source
 * @param types
 *   the types that columns have, as far as PostgreSQL does not fix their oids
 */
final case class MirroredTable(
    source: SourceTable,
    target: String,
    schema: StructType,
    types: TypeRegistry
)

object MirroredTable {

  /** A table that is not mirrored. */
  def none(source: SourceTable): MirroredTable =
    MirroredTable(source, source.name.name, new StructType, TypeRegistry())
}
