package io.sparkpgoutput.changes.rows

import io.sparkpgoutput.protocol.TupleCells

/**
 * The cells of one image of a row. If a TOASTed value was not sent, its cell comes from the old image.
 */
final class RowImage {
  private var isKey: Array[Boolean] = _
  private var sent: TupleCells = _
  private var sentIsKey = false
  private var old: TupleCells = _
  private var oldIsKey = false
  private var found: TupleCells = _

  /**
   * @param isKey tells for each column if it is part of the replica identity
   * @param sentIsKey true if only the columns of the replica identity were sent
   * @param old the old image; null if there is none
   * @param oldIsKey true if the old image has only the columns of the replica identity
   */
  def start(
      isKey: Array[Boolean],
      sent: TupleCells,
      sentIsKey: Boolean,
      old: TupleCells,
      oldIsKey: Boolean
  ): Unit = {
    this.isKey = isKey
    this.sent = sent
    this.sentIsKey = sentIsKey
    this.old = old
    this.oldIsKey = oldIsKey
  }

  /**
   * Moves to a column. Columns are visited in order. Returns the kind of the cell, which is `u` if the
   * message does not carry the value.
   */
  def goTo(column: Int): Int =
    if (sentIsKey && !isKey(column)) RowImage.Missing // its n means: absent
    else {
      found = sent
      val kind = sent.goTo(column)
      if (kind == RowImage.Missing && old != null && (!oldIsKey || isKey(column))) {
        found = old
        old.goTo(column)
      } else kind
    }

  /** The cells of the tuple that has the current cell. */
  def cells: TupleCells = found
}

object RowImage {
  final val Missing = 'u'.toInt
}
