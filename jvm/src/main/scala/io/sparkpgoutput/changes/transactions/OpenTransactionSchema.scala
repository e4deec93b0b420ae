package io.sparkpgoutput.changes.transactions

import org.apache.spark.sql.types._

import io.sparkpgoutput.protocol.StructSchema

/** The columns of a transaction that is still open at the end of the messages. */
object OpenTransactionSchema extends StructSchema {
  val XID: Int = field("_xid", LongType, "The id of the top-level transaction")
  val GID: Int = field("_gid", StringType, "The identifier of a prepared transaction")
  val STATE: Int = field(
    "state",
    StringType,
    s"One of ${OpenTransaction.Begun}, ${OpenTransaction.Streaming}, ${OpenTransaction.Prepared}"
  )
  val FIRST_POSITION: Int = field(
    "first_position",
    LongType,
    "The position of its first message"
  )
  val CHANGES: Int = field(
    "changes",
    LongType,
    "The number of its changes so far, with those of savepoints that were rolled back"
  )
}
