package io.sparkpgoutput.changes.transactions

import org.apache.spark.sql.types._

import io.sparkpgoutput.protocol.StructSchema

/** The columns of a transaction that is still open at the end of the messages. */
object OpenTransactionSchema extends StructSchema {
  import OpenTransaction._

  field("_xid", LongType, "The id of the top-level transaction")
  field("_gid", StringType, "The identifier of a prepared transaction")
  field("state", StringType, s"One of $Begun, $Streaming, $Prepared")
  field("first_position", LongType, "The position of its first message")
  field(
    "changes",
    LongType,
    "The number of its changes so far, including changes of savepoints that were rolled back"
  )
}
