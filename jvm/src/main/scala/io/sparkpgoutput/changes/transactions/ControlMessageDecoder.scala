package io.sparkpgoutput.changes.transactions

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.sparkpgoutput.changes.PositionedDecoder
import io.sparkpgoutput.decode.FieldSelection
import io.sparkpgoutput.protocol.{MessageSchema, PgTypeSchema, StreamContext, TextEncoding}

/** Reads the fields of messages that are no changes. Not thread-safe. */
final class ControlMessageDecoder(encoding: TextEncoding) {

  /** All fields but the tuples, which are the last: so their ordinals are the schema's. */
  private val decoder =
    new PositionedDecoder(encoding, FieldSelection.messageFields(0 until MessageSchema.KEY: _*))

  /**
   * The fields of a message, in memory that the next one's are written to.
   *
   * @throws PgOutputException
   *   for a malformed one, with its position
   */
  def read(position: Long, message: Array[Byte], context: Int): UnsafeRow =
    decoder.decode(position, message, context)

  /** Whether a message stands outside of stream blocks, as far as it tells by itself. */
  def isOutside(position: Long, message: Array[Byte]): Boolean =
    read(position, message, StreamContext.UNKNOWN).isNullAt(MessageSchema.XID)

  /** A Relation or Type message: what it is about, and whether it stands in a stream block. */
  def definition(position: Long, message: Array[Byte], context: Int): SchemaMessage = {
    val row = read(position, message, context)
    val oid =
      if (message(0) == 'R') row.getLong(MessageSchema.RELATION_ID)
      else row.getStruct(MessageSchema.PG_TYPE, PgTypeSchema.schema.length).getLong(PgTypeSchema.ID)
    SchemaMessage(oid, position, message, inStream = !row.isNullAt(MessageSchema.XID))
  }
}
