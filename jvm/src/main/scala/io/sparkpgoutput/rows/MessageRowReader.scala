package io.sparkpgoutput.rows

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.sparkpgoutput.decode.MessageDecoder
import io.sparkpgoutput.protocol.EncodedTuple

/**
 * Reads a tuple of a message as a row, without a struct of its cells in between. Not thread-safe.
 *
 * @param field the field of the tuple: key, old or new
 */
final class MessageRowReader(decoder: MessageDecoder, field: Int, converter: RowConverter) {
  private val cells = new EncodedTuple

  /** Reads the row, which the next one overwrites. Returns null if the message has no such tuple. */
  def read(message: Array[Byte], context: Int): UnsafeRow =
    row(decoder.decode(message, context))

  /** Reads the row, but also returns null if the message is malformed. */
  def readOrNull(message: Array[Byte], context: Int): UnsafeRow =
    row(decoder.decodeOrNull(message, context))

  private def row(decoded: UnsafeRow): UnsafeRow =
    if (decoded == null || !decoder.cells(field, cells)) null else converter.row(cells)
}
