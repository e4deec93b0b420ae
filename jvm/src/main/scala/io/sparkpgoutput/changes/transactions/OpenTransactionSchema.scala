package io.sparkpgoutput.changes.transactions

import org.apache.spark.sql.types._

import io.sparkpgoutput.protocol.StructSchema

/** A transaction that is open at the end of a stream. */
object OpenTransactionSchema extends StructSchema {
  val XID: Int = field("_xid", LongType, "id of the top-level transaction")
  val GID: Int = field("_gid", StringType, "identifier of a transaction that is to be prepared")
  val STATE: Int = field(
    "state",
    StringType,
    s"${OpenTransaction.Begun}, ${OpenTransaction.Streaming} or ${OpenTransaction.Prepared}"
  )
  val FIRST_POSITION: Int = field(
    "first_position",
    LongType,
    "position of its first message, at which the next read must begin"
  )
  val CHANGES: Int = field(
    "changes",
    LongType,
    "how many messages with changes were sent so far, those of savepoints rolled back included"
  )
}
