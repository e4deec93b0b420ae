package io.sparkpgoutput.lake.fold

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.sparkpgoutput.lake.ApplyError
import io.sparkpgoutput.lake.batch.{ChangeKind, ChangeView}

/**
 * The net effect of the changes of a key, if the server sends the whole old row too.
 *
 * A deferrable key can have several rows inside of a transaction, for example while two rows swap
 * their keys. The old row tells which of them a change means.
 */
final class FullFold(format: FoldFormat, writer: FoldedRowWriter) extends KeyFold {
  private val reader = new ImageReader(format)

  /** The rows with this key that came in this cut and are still there. */
  private val rows = mutable.ArrayBuffer.empty[Image]

  /** Whether each of these rows is the one that the target has, with other values. */
  private val areUpdated = mutable.ArrayBuffer.empty[Boolean]

  /** The row of the target, once it has gone. */
  private var gone: Image = _
  private var isReplaced = false

  override def take(change: ChangeView): UnsafeRow = {
    var isUpdated = false
    if (change.kind != ChangeKind.Insert && change.kind != ChangeKind.MovedIn) {
      if (!change.hasOld) throw ApplyError.keyNotSent(format.name)
      isUpdated = goes(Image.old(change)) && change.kind == ChangeKind.Update
    }
    if (change.kind != ChangeKind.Delete && change.kind != ChangeKind.MovedOut) {
      rows += Image.sent(change)
      areUpdated += isUpdated
    }
    null
  }

  /** Removes a row. Returns whether it is the one that the target has, with these or other values. */
  private def goes(old: Image): Boolean = {
    val found = if (rows.isEmpty) -1 else indexOf(old)
    if (found >= 0) {
      rows.remove(found)
      areUpdated.remove(found)
    } else {
      if (gone != null && format.isStrict) throw ApplyError.targetDiffers(format.name, Twice)
      gone = old
      true
    }
  }

  /**
   * The row that equals an old row; -1 if it is the target's. If the table was altered since the row
   * came, its old row can look different. Then no transaction was open, and there is one row only.
   */
  private def indexOf(old: Image): Int = {
    val values = reader.values(old)
    val equal = rows.indexWhere { row =>
      row.definition == old.definition && reader.values(row).isSame(values)
    }
    if (equal >= 0) equal else rows.indexWhere(_.definition != old.definition)
  }

  override def finish(): UnsafeRow = {
    if (rows.length > 1 && format.isStrict) throw ApplyError.targetDiffers(format.name, Twice)
    if (
      format.splitsReplaced && gone != null && areUpdated.lastOption.contains(false) && !isReplaced
    ) {
      isReplaced = true
      write(gone, RowOp.Delete)
    } else {
      val row =
        if (rows.nonEmpty) write(
          rows.last,
          if (isReplaced) RowOp.Replace else if (gone == null) RowOp.Insert else RowOp.Update
        )
        else if (gone != null) write(gone, RowOp.Delete)
        else null
      rows.clear()
      areUpdated.clear()
      gone = null
      isReplaced = false
      row
    }
  }

  private def write(image: Image, op: String): UnsafeRow = {
    writer.start()
    writer.add(image)
    writer.fill(areUnsent = op == RowOp.Update && !image.isWhole)
    writer.op(op)
    writer.position(FoldedColumns.Born, null)
    writer.position(FoldedColumns.Left, null)
    writer.row
  }

  private def Twice =
    "a key has two rows, or a row is changed that is not there, by what the other changes say"
}
