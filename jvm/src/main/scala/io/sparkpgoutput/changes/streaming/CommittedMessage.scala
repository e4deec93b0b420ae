package io.sparkpgoutput.changes.streaming

import org.apache.spark.sql.Row
import org.apache.spark.sql.types._

import io.sparkpgoutput.changes.transactions.{Commit, SchemaMessage, Transaction}
import io.sparkpgoutput.protocol.StructSchema

/**
 * A row with a change of a committed transaction, or with a Relation or Type message that later
 * changes need. The columns after `ordinal` matter for changes only.
 */
object CommittedMessage extends StructSchema {
  val POSITION: Int = field("position", LongType, "the message's")
  val MESSAGE: Int = field("message", BinaryType, "the message")
  val IN_STREAM: Int = field("in_stream", BooleanType, "whether it was sent in a stream block")
  val ORDINAL: Int = field("ordinal", LongType, "that of the change's first row")
  val LSN: Int = field("lsn", LongType, "of the commit")
  val TIMESTAMP: Int = field("timestamp", LongType, "of the commit, microseconds since 1970")
  val XID: Int = field("xid", LongType, "the top-level transaction's")
  val GID: Int = field("gid", StringType, "of a prepared transaction")
  val ORIGIN: Int = field("origin", StringType, "of the transaction")

  /** The source is the last column. Its type is that of the user's column. */
  val SOURCE: Int = schema.length

  def withSource(sourceType: DataType): StructType = schema.add("source", sourceType)

  def of(change: BufferedChange, transaction: Transaction, commit: Commit, source: Any): Row = Row(
    change.position,
    change.message,
    change.inStream,
    change.ordinal,
    commit.lsn,
    commit.timestamp,
    transaction.xid,
    commit.gid,
    transaction.origin,
    source
  )

  def definition(sent: SchemaMessage, source: Any): Row =
    Row(sent.position, sent.message, sent.inStream, 0L, 0L, 0L, 0L, null, null, source)
}
