package io.sparkpgoutput.protocol

import java.util.Locale

/**
 * The place and the cause of a failed reading of a message.
 *
 * It makes no text until it is described: with an unknown stream context the first reading of a
 * message often fails and the second is right.
 *
 * @param at offset of the failing field, from 0, the tag included
 * @param field ordinal of the field in [[MessageSchema]]
 * @param column number of the column, from 1; 0 outside of columns
 * @param part the part of the field; null for all of it
 * @param problem a `String.format` pattern
 * @param found the pattern's numbers
 */
final class DecodeFailure(
    val at: Int,
    field: Int,
    column: Int,
    part: String,
    problem: String,
    found: Long,
    wanted: Long
) {

  /**
   * For example `INSERT at byte 17 (new, column 3): need 4 bytes, got 2; message of 19 bytes: 49…`.
   */
  def describe(message: Array[Byte]): String = {
    val messageType = MessageType.of(message(0))
    val name = if (messageType == null) "unknown message" else messageType.name
    val place = Seq(
      Option.when(field >= 0)(MessageSchema.schema(field).name),
      Option.when(column > 0)(s"column $column"),
      Option(part)
    ).flatten.mkString(", ")
    val where = if (place.isEmpty) "" else s" ($place)"
    val shown = message.take(DecodeFailure.ExcerptBytes).map(byte => f"$byte%02x").mkString
    val more = if (message.length > DecodeFailure.ExcerptBytes) "…" else ""
    s"$name at byte $at$where: ${problem.formatLocal(Locale.ROOT, found, wanted)}; " +
      s"message of ${message.length} bytes: $shown$more"
  }
}

object DecodeFailure {
  private val ExcerptBytes = 32
}
