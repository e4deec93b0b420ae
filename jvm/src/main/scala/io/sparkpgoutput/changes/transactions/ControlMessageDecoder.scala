package io.sparkpgoutput.changes.transactions

import io.sparkpgoutput.changes.PositionedDecoder
import io.sparkpgoutput.decode.FieldSelection
import io.sparkpgoutput.protocol._

/** Decodes the messages without tuples. Not thread-safe. */
final class ControlMessageDecoder(encoding: TextEncoding)
    extends PositionedDecoder(encoding, ControlMessageDecoder.selection) {

  /** Tells if a message stands outside of stream blocks, as far as its bytes show. */
  def isOutside(position: Long, message: Array[Byte]): Boolean =
    decode(position, message, StreamContext.UNKNOWN).isNullAt(MessageSchema.XID)

  /** Decodes what a Relation or Type message is about, and if it stands in a stream block. */
  def definition(position: Long, message: Array[Byte], context: Int): SchemaMessage = {
    val row = decode(position, message, context)
    val oid =
      if (message(0) == MessageType.Tag.Relation) row.getLong(MessageSchema.RELATION_ID)
      else row.getStruct(MessageSchema.PG_TYPE, PgTypeSchema.schema.length).getLong(PgTypeSchema.ID)
    SchemaMessage(oid, position, message, inStream = !row.isNullAt(MessageSchema.XID))
  }
}

private object ControlMessageDecoder {

  /** The tuples are the last fields, so the ordinals of the others are those of the schema. */
  val selection: FieldSelection = FieldSelection.messageFields(0 until MessageSchema.KEY: _*)
}
