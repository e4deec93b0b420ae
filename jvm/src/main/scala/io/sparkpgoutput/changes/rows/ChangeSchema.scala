package io.sparkpgoutput.changes.rows

import org.apache.spark.sql.types._

import io.sparkpgoutput.protocol.StructSchema

/** The columns of a change that come after the columns of its table. */
object ChangeSchema extends StructSchema {
  private val Names = ArrayType(StringType, containsNull = false)

  val TABLE: Int =
    field("_table", StringType, "The schema and the name of the table at the time of the change")
  val CHANGE_TYPE: Int =
    field("_change_type", StringType, "One of " + ChangeType.all.mkString(", "))
  val COMMIT_VERSION: Int = field("_commit_version", LongType, "The LSN of the commit")
  val COMMIT_TIMESTAMP: Int = field("_commit_timestamp", TimestampType, "The time of the commit")
  val XID: Int = field("_xid", LongType, "The id of the top-level transaction")
  val GID: Int = field("_gid", StringType, "The identifier of a prepared transaction")
  val ORIGIN: Int = field("_origin", StringType, "The name of the replication origin")
  val ORDINAL: Int = field(
    "_ordinal",
    LongType,
    "The position of the row in its transaction. It is unique and grows, with gaps"
  )
  val POSITION: Int =
    field(
      "_position",
      LongType,
      "The position of the message: its value in the column that orders the messages"
    )
  val KEYS: Int = field("_keys", Names, "The columns of the replica identity")
  val MISSING: Int = field(
    "_missing",
    Names,
    "The columns that are NULL because the message does not have their value: an unchanged " +
      "TOASTed value, or a column outside the key of an old row"
  )

  /** The last column, if there are several sources. */
  final val Source = "_source"

  /** The column that has all columns of the table, if there is no schema. */
  final val Row = "row"
}
