package io.sparkpgoutput.changes.rows

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.sparkpgoutput.changes.PositionedDecoder
import io.sparkpgoutput.decode.FieldSelection
import io.sparkpgoutput.protocol.{
  DecodedTuple,
  EncodedTuple,
  MessageSchema,
  TextEncoding,
  TupleCells,
  TupleSchema
}

/** Decodes the messages with changes, and gives the cells of their tuples in UTF-8. Not thread-safe. */
final class ChangeMessageDecoder(encoding: TextEncoding) {
  import ChangeMessageDecoder._

  private val decoder = new PositionedDecoder(
    encoding,
    FieldSelection.messageFields((if (encoding.isUtf8) fields else fields ++ tuples): _*)
  )
  private var row: UnsafeRow = _
  private val sent = Array.fill(3)(new EncodedTuple)
  private val converted = Array.fill(3)(new DecodedTuple)

  /** Reads a whole message, so that a malformed message is an error whatever the query needs. */
  def read(position: Long, message: Array[Byte], context: Int): Unit =
    row = decoder.decode(position, message, context)

  def xid: Long = row.getLong(0)
  def relationId: Long = row.getLong(1)
  def relationIds: Array[Long] = row.getArray(2).toLongArray()

  /**
   * Returns the cells of a tuple, from the first one on, or null if there is no such tuple.
   *
   * @param field one of [[Key]], [[Old]] and [[New]]
   */
  def cells(field: Int): TupleCells =
    if (encoding.isUtf8) {
      if (decoder.cells(MessageSchema.KEY + field, sent(field))) sent(field) else null
    } else {
      val ordinal = fields.length + field
      if (row.isNullAt(ordinal)) null
      else {
        converted(field).start(row.getStruct(ordinal, TupleSchema.schema.length))
        converted(field)
      }
    }
}

object ChangeMessageDecoder {
  final val Key = 0
  final val Old = MessageSchema.OLD - MessageSchema.KEY
  final val New = MessageSchema.NEW - MessageSchema.KEY

  private val fields =
    Seq(MessageSchema.XID, MessageSchema.RELATION_ID, MessageSchema.RELATION_IDS)
  private val tuples = Seq(MessageSchema.KEY, MessageSchema.OLD, MessageSchema.NEW)
}
