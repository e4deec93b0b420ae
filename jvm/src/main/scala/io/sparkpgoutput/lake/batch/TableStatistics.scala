package io.sparkpgoutput.lake.batch

import io.sparkpgoutput.changes.TableName

/**
 * The changes of a table in a cut. Changes below the mark of the table do not count.
 *
 * @param name the name by the last Relation message
 * @param definitions how the messages describe the table, one definition after the other
 * @param truncated the last TRUNCATE
 * @param moved the updates that changed the key and did not send all values
 * @param lastCommit
 *   the time of the last commit with a change of the table, in microseconds since 1970
 */
final case class TableStatistics(
    oid: Long,
    name: TableName,
    definitions: IndexedSeq[Definition],
    inserts: Long,
    updates: Long,
    deletes: Long,
    truncates: Long,
    truncated: Option[MessagePosition],
    moved: Long,
    lastCommit: Long
) {
  def changes: Long = inserts + updates + deletes + truncates
}

/**
 * A table as one Relation message describes it.
 *
 * @param relation the Relation message
 * @param types the Type messages of its columns
 * @param changes
 *   the inserts, updates and deletes under this definition. It does not matter if there are none: the
 *   table can have been altered since, and copied.
 * @param updates the updates among them
 * @param unsent tells for each column if an update did not send its value
 * @param partialInsert
 *   the LSN of the first commit with an insert that did not send all values: the row filter of a
 *   publication has made it of an update
 * @param missingKey
 *   the columns of the table's key that the message does not have. Then the changes are left out.
 */
final case class Definition(
    relation: Array[Byte],
    types: IndexedSeq[Array[Byte]],
    changes: Long,
    updates: Long,
    unsent: IndexedSeq[Boolean],
    partialInsert: Option[Long],
    missingKey: Seq[String]
)

/** The place of a message in the stream. */
final case class MessagePosition(lsn: Long, ordinal: Long)
