package io.sparkpgoutput.changes

import java.util.Arrays

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.types.DataType

import io.sparkpgoutput.decode.{FieldSelection, MessageDecoder}
import io.sparkpgoutput.errors.PgOutputException
import io.sparkpgoutput.protocol.TextEncoding

/** The columns of the messages as the operators read them. The source column is optional. */
object MessageColumns {
  final val Position = 0
  final val Message = 1
  final val Source = 2
  val names: Seq[String] = Seq("position", "message", "source")

  /** Returns the position of a message, or throws an error if it is NULL. */
  def position(row: InternalRow): Long =
    if (row.isNullAt(Position)) throw nullPosition else row.getLong(Position)

  def position(row: Row): Long =
    if (row.isNullAt(Position)) throw nullPosition else row.getLong(Position)

  private def nullPosition = new PgOutputException("PGOUTPUT_MESSAGE_ORDER.NULL_POSITION")

  /** Returns the bytes of a message, or throws an error if it is NULL. */
  def message(row: InternalRow, position: Long): Array[Byte] =
    if (row.isNullAt(Message)) throw nullMessage(position) else row.getBinary(Message)

  /** The error of a message that is NULL. */
  def nullMessage(position: Long): PgOutputException =
    new PgOutputException("PGOUTPUT_MALFORMED_MESSAGE.NULL", "position" -> position)

  /** Checks that a message is the one that was at its position before. */
  def checkSame(earlier: Array[Byte], message: Array[Byte], position: Long): Unit =
    if (!Arrays.equals(earlier, message))
      throw new PgOutputException(
        "PGOUTPUT_MESSAGE_ORDER.POSITIONS_BEGAN_AGAIN",
        "position" -> position
      )

  /** Returns the source of a message, or null if there is no source column. */
  def source(row: InternalRow, sourceType: Option[DataType]): Any = sourceType match {
    case Some(dataType) if !row.isNullAt(Source) => row.get(Source, dataType)
    case _                                       => null
  }
}

/** Decodes messages and names their position in errors. Not thread-safe. */
class PositionedDecoder(encoding: TextEncoding, selection: FieldSelection)
    extends MessageDecoder(encoding, selection) {

  /**
   * Returns the fields of a message. The next call overwrites them.
   *
   * @throws PgOutputException if the message is malformed
   */
  final def decode(position: Long, message: Array[Byte], context: Int): UnsafeRow = {
    val row = decode(message, context, failFast = false)
    if (row == null) {
      throw new PgOutputException(
        "PGOUTPUT_MALFORMED_MESSAGE.IN_STREAM",
        "position" -> position,
        "problem" -> errorOrNull(message, context)
      )
    }
    row
  }
}
