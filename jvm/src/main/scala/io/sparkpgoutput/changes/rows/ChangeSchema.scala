package io.sparkpgoutput.changes.rows

import org.apache.spark.sql.types._

import io.sparkpgoutput.protocol.StructSchema

/** The columns that changes have behind those of their table. */
object ChangeSchema extends StructSchema {
  private val Names = ArrayType(StringType, containsNull = false)

  val TABLE: Int = field("_table", StringType, "namespace.name of the table at the change")
  val CHANGE_TYPE: Int = field("_change_type", StringType, ChangeType.all.mkString(", "))
  val COMMIT_VERSION: Int = field("_commit_version", LongType, "LSN of the commit")
  val COMMIT_TIMESTAMP: Int = field("_commit_timestamp", TimestampType, "time of the commit")
  val XID: Int = field("_xid", LongType, "id of the top-level transaction")
  val GID: Int = field("_gid", StringType, "identifier of a prepared transaction")
  val ORIGIN: Int = field("_origin", StringType, "name of the replication origin")
  val ORDINAL: Int = field(
    "_ordinal",
    LongType,
    "place of the row in its transaction, growing and unique, with gaps"
  )
  val POSITION: Int =
    field("_position", LongType, "the message's value of the column that orders messages")
  val KEYS: Int = field("_keys", Names, "the columns of the replica identity")
  val MISSING: Int = field(
    "_missing",
    Names,
    "the columns whose value the message does not carry: they are NULL, whatever they were"
  )

  /** Behind these, where there are several streams. */
  final val Source = "_source"

  /** Of a row that has all the table's columns in one. */
  final val Row = "row"
}
