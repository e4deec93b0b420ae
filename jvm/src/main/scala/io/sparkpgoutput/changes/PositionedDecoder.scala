package io.sparkpgoutput.changes

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.sparkpgoutput.decode.{FieldSelection, MessageDecoder}
import io.sparkpgoutput.protocol.{EncodedTuple, TextEncoding}

/** Decodes messages of which it is known where they stand. Not thread-safe. */
final class PositionedDecoder(encoding: TextEncoding, selection: FieldSelection) {
  private val decoder = new MessageDecoder(encoding, selection)

  /**
   * The fields of a message, in memory that the next one's are written to.
   *
   * @throws PgOutputException
   *   for a malformed one, with its position
   */
  def decode(position: Long, message: Array[Byte], context: Int): UnsafeRow = {
    val row = decoder.decodeOrNull(message, context)
    if (row == null) {
      throw ChangesError.malformed(decoder.errorOrNull(message, context).toString, position)
    }
    row
  }

  /** Starts with the cells of a tuple of the message that was decoded; false where there is none. */
  def cells(field: Int, cells: EncodedTuple): Boolean = decoder.cells(field, cells)
}
