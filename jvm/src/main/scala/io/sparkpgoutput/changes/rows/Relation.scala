package io.sparkpgoutput.changes.rows

import io.sparkpgoutput.changes.TableName

/** A table as a Relation message describes it. */
final case class Relation(
    oid: Long,
    name: TableName,
    columns: IndexedSeq[RelationColumn]
)

/** @param isKey true if the column is part of the replica identity */
final case class RelationColumn(
    name: String,
    isKey: Boolean,
    typeId: Long
)
