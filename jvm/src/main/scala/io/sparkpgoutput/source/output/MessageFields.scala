package io.sparkpgoutput.source.output

import org.apache.spark.sql.types.{BinaryType, LongType}

import io.sparkpgoutput.protocol.StructSchema

/** The columns of messages. */
object MessageFields extends StructSchema {
  val LSN: Int = field("lsn", LongType, "The LSN of the commit of the transaction")
  val ORDINAL: Int =
    field("ordinal", LongType, "The position of the message in its transaction. BEGIN is 0")
  val XID: Int = field("xid", LongType, "The id of the transaction")
  val DATA: Int = field("data", BinaryType, "The message, for pgoutput_decode")
}
