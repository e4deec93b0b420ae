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

  /** The row of the target, once it has gone. */
  private var gone: Image = _

  override def take(change: ChangeView): UnsafeRow = {
    if (change.kind != ChangeKind.Insert && change.kind != ChangeKind.MovedIn) {
      if (!change.hasOld) throw ApplyError.keyNotSent(format.name)
      goes(Image.old(change))
    }
    if (change.kind != ChangeKind.Delete && change.kind != ChangeKind.MovedOut) {
      rows += Image.sent(change)
    }
    null
  }

  private def goes(old: Image): Unit = {
    val found = if (rows.isEmpty) -1 else indexOf(old)
    if (found >= 0) rows.remove(found)
    else {
      if (gone != null && format.isStrict) throw ApplyError.targetDiffers(format.name, Twice)
      gone = old
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
    val row =
      if (rows.nonEmpty) write(rows.last, if (gone == null) RowOp.Insert else RowOp.Update)
      else if (gone != null) write(gone, RowOp.Delete)
      else null
    rows.clear()
    gone = null
    row
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
