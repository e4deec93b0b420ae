package io.sparkpgoutput.changes.rows

import io.sparkpgoutput.changes.TableName

/**
 * A table as a Relation message describes it.
 *
 * @param identity the replica identity, as `pg_class.relreplident` has it
 */
final case class Relation(
    oid: Long,
    name: TableName,
    columns: IndexedSeq[RelationColumn],
    identity: Char
)

/** @param isKey true if the column is part of the replica identity */
final case class RelationColumn(name: String, isKey: Boolean, typeId: Long)
