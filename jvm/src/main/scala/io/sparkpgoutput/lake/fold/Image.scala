package io.sparkpgoutput.lake.fold

import io.sparkpgoutput.lake.batch.ChangeView

/**
 * A row as a message has it.
 *
 * @param bytes the bytes that have the message from `from` on
 * @param definition the number of the table's definition
 * @param isOld true for the old row of the message, false for its new row
 * @param isWhole
 *   true if a column whose value is not there is NULL; false if it keeps the value it had
 */
final class Image(
    val bytes: Array[Byte],
    val from: Int,
    val definition: Int,
    val isOld: Boolean,
    val isWhole: Boolean
)

object Image {
  def sent(change: ChangeView): Image =
    if (change.isWhole) new Image(change.bytes, change.messageFrom, change.definition, false, true)
    // It is kept for long, so it does not keep the other changes in the same array.
    else new Image(change.message, 0, change.definition, isOld = false, isWhole = false)

  def old(change: ChangeView): Image =
    new Image(change.bytes, change.messageFrom, change.definition, isOld = true, isWhole = false)
}
