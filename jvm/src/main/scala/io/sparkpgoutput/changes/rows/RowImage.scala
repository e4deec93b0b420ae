package io.sparkpgoutput.changes.rows

import io.sparkpgoutput.protocol.TupleCells

/**
 * The cells of one image of a row: those that were sent, and for TOASTed values that were not,
 * those of the old image.
 */
final class RowImage {
  private var isKey: Array[Boolean] = _
  private var sent: TupleCells = _
  private var sentIsKey = false
  private var old: TupleCells = _
  private var oldIsKey = false
  private var found: TupleCells = _

  /**
   * @param isKey
   *   for each column whether it is part of the replica identity
   * @param sentIsKey
   *   whether only those columns were sent
   * @param old
   *   the old image; null where there is none
   * @param oldIsKey
   *   whether of that only those columns were sent
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
   * Goes on to a column, from 0 and never back; returns the cell's kind, u where the message does
   * not carry the value.
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

  /** The cell that was gone to. */
  def cells: TupleCells = found
}

object RowImage {
  final val Missing = 'u'.toInt
}
