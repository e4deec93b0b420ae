package io.sparkpgoutput.rows

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.sparkpgoutput.decode.MessageDecoder
import io.sparkpgoutput.protocol.EncodedTuple

/**
 * Reads a tuple of a message to a row, without a row of its cells in between. Not thread-safe.
 *
 * @param decoder
 *   of messages in UTF-8
 * @param field
 *   key, old or new
 */
final class MessageRowReader(
    decoder: MessageDecoder,
    field: Int,
    converter: RowConverter
) {
  private val cells = new EncodedTuple

  /** The row, in memory that the next is written to; null where the message has no such tuple. */
  def read(message: Array[Byte], context: Int): UnsafeRow =
    row(decoder.decode(message, context))

  /** The same; null also for a malformed message. */
  def readOrNull(message: Array[Byte], context: Int): UnsafeRow =
    row(decoder.decodeOrNull(message, context))

  private def row(decoded: UnsafeRow): UnsafeRow =
    if (decoded == null || !decoder.cells(field, cells)) null else converter.row(cells)
}
