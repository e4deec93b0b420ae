package io.sparkpgoutput.changes

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.sparkpgoutput.decode.{FieldSelection, MessageDecoder}
import io.sparkpgoutput.protocol.{EncodedTuple, TextEncoding}

/** Decodes messages and names their position in errors. Not thread-safe. */
class PositionedDecoder(encoding: TextEncoding, selection: FieldSelection) {
  private val decoder = new MessageDecoder(encoding, selection)

  /**
   * Returns the fields of a message. The next call overwrites them.
   *
   * @throws PgOutputException if the message is malformed
   */
  final def decode(position: Long, message: Array[Byte], context: Int): UnsafeRow = {
    val row = decoder.decodeOrNull(message, context)
    if (row == null) {
      throw ChangesError.malformed(decoder.errorOrNull(message, context).toString, position)
    }
    row
  }

  /** Starts with the cells of a tuple of the decoded message. Returns false if it has none. */
  final def cells(field: Int, cells: EncodedTuple): Boolean = decoder.cells(field, cells)
}
