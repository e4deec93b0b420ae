package io.sparkpgoutput.lake.fold

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.sparkpgoutput.lake.ApplyError
import io.sparkpgoutput.lake.batch.{ChangeKind, ChangeView, MessagePosition}

/**
 * The net effect of the changes of a key, if the server sends the old key only.
 *
 * A row lives from an insert, a move to this key, or from before the cut, to a delete or a move to
 * another key. Only the last life counts. The first change tells if the row was there before.
 */
final class KeyedFold(format: FoldFormat, writer: FoldedRowWriter) extends KeyFold {
  private val reader = new ImageReader(format)

  private var isFirst = true
  private var wasThere = false
  private var lives = false

  /** The update that moved the row to this key; null if no update did. */
  private var born: MessagePosition = _

  /** The images of this life that have values which count, the newest first. */
  private val images = mutable.ArrayBuffer.empty[Image]

  /** The image that has the key. */
  private var last: Image = _

  /** The row of the target, if it was deleted and [[FoldFormat.splitsReplaced]] holds. */
  private var gone: Image = _
  private var isReplaced = false

  override def take(change: ChangeView): UnsafeRow = {
    val begins = change.kind == ChangeKind.Insert || change.kind == ChangeKind.MovedIn
    if (isFirst) {
      isFirst = false
      wasThere = !begins
      lives = wasThere
    }
    if (format.isStrict && begins == lives) throw ApplyError.targetDiffers(format.name, Twice)
    change.kind match {
      case ChangeKind.Insert => begin(change, null)
      case ChangeKind.MovedIn =>
        begin(change, if (change.isWhole) null else MessagePosition(change.lsn, change.ordinal))
      case ChangeKind.Update =>
        lives = true
        add(Image.sent(change))
      case ChangeKind.Delete   => end(change)
      case ChangeKind.MovedOut => leave(change)
    }
  }

  private def begin(change: ChangeView, at: MessagePosition): UnsafeRow = {
    lives = true
    born = at
    images.clear()
    add(Image.sent(change))
  }

  private def end(change: ChangeView): UnsafeRow = {
    lives = false
    born = null
    images.clear()
    last = Image.old(change)
    if (format.splitsReplaced && wasThere && gone == null) gone = last
    null
  }

  /** The row moves to another key. If it takes values along that are not sent, it is shown as it is. */
  private def leave(change: ChangeView): UnsafeRow = {
    val shown =
      if (change.isWhole) null
      else {
        writer.start()
        images.foreach(writer.add)
        writer.add(Image.old(change))
        write(RowOp.Left, MessagePosition(change.lsn, change.ordinal))
      }
    end(change)
    shown
  }

  /** Adds the newest image, and forgets each image whose values are all in newer images. */
  private def add(image: Image): UnsafeRow = {
    last = image
    if (image.isWhole) images.clear()
    else {
      val found = reader.sent(image)
      images.filterInPlace { older =>
        val before = found.count(identity)
        reader.sent(older).zipWithIndex.foreach { case (isSent, index) => found(index) |= isSent }
        found.count(identity) > before
      }
    }
    images.prepend(image)
    null
  }

  override def finish(): UnsafeRow =
    if (lives && gone != null && !isReplaced) {
      isReplaced = true
      deleted(gone)
    } else {
      val row =
        if (lives) {
          writer.start()
          images.foreach(writer.add)
          write(
            if (isReplaced) RowOp.Replace else if (wasThere) RowOp.Update else RowOp.Insert,
            null
          )
        } else if (wasThere) deleted(last)
        else null
      isFirst = true
      wasThere = false
      lives = false
      born = null
      gone = null
      isReplaced = false
      images.clear()
      row
    }

  private def deleted(row: Image): UnsafeRow = {
    writer.start()
    writer.add(row)
    write(RowOp.Delete, null)
  }

  private def write(op: String, left: MessagePosition): UnsafeRow = {
    val isWhole = op == RowOp.Delete || images.nonEmpty && images.last.isWhole
    val isUnsent = writer.fill(areUnsent = !isWhole)
    writer.op(op)
    writer.position(FoldedColumns.Born, if (isUnsent) born else null)
    writer.position(FoldedColumns.Left, left)
    writer.row
  }

  private def Twice =
    "a row is inserted that is there, or a row is changed that is not there, by what the other changes say"
}
