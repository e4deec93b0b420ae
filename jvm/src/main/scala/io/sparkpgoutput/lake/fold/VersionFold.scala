package io.sparkpgoutput.lake.fold

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import io.sparkpgoutput.lake.catalog.TableError
import io.sparkpgoutput.lake.route.{ChangeView, MessagePosition, RowEffect, Truncation}

/**
 * '''The versions of a key.''' The fold of a table with the mode versions gives a row for each version that a cut
 * begins, and one more for the version that the target has.
 *
 * {{{
 *   changes of a key      commit 10          commit 20          commit 30       commit 40
 *                         U U                D I                I D             U
 *   rows of the fold  D ──┤ R ───────────────┤ R ───────────────────────────────┤ R ─────────────► current
 *                     its version ends
 * }}}
 *
 * '''What a version is.''' It is the state of a row after a COMMIT. It begins with the LSN of this commit, and ends
 * with the LSN of the next commit that changes the row: an update, also one that leaves all values, a deletion,
 * another key, or a TRUNCATE. Several changes of one transaction make one version. A row that is inserted and deleted
 * in one transaction has no version. Commits never share a transaction, so the versions do not depend on where cuts
 * end.
 *
 * '''What is done with the rows.''' [[RowOp.Delete]] ends the current version of the target, which must exist.
 * [[RowOp.Insert]] adds nothing: it says that the target must not have a current version. [[RowOp.Replace]] adds a
 * version. A key has at most one row of the first two kinds. It has none if all of its changes come after a TRUNCATE,
 * which ends the version of the target by itself.
 *
 * '''Values that were not sent''' are those of the previous version. The newest message of the cut that has the value
 * counts, as in [[KeyedFold]]. If no message has it, the current version of the target does. The write looks up such
 * values only for moved rows. So the fold gives the version of the target as a row that moved to its own key
 * ([[RowOp.MovedOut]]).
 */
abstract class VersionFold(format: FoldFormat, writer: FoldedRowWriter) extends KeyFold {

  /** The version that a commit of the cut began and no later commit ended; null if there is none. */
  private var open: UnsafeRow = _

  /** The commit whose changes are being taken, and its time. */
  protected var commit = 0L
  private var time = 0L

  /** An image with the key. */
  private var keyImage: Image = _

  /** Whether a change of the cut has changed or deleted the row of the target. */
  protected var isGone = false

  /** Whether a TRUNCATE of the cut was taken. */
  protected var isEmptied = false

  /** Whether the fold has given the row that ends the version of the target, or says that there is none. */
  protected var isChecked = false

  /** The first change of the row of the target that lacks a value, and its position; null if none does. */
  private var root: Image = _
  private var rootAt: MessagePosition = _
  private var isRootGiven = false

  /**
   * Takes a change of the commit.
   *
   * @param image its new row; if it has none, its old row
   */
  protected def change(change: ChangeView, image: Image): Unit

  /** A TRUNCATE deletes the rows with the key. */
  protected def vanish(): Unit

  /** Ends a commit. Returns whether the commit changed a row that existed before it, or left a new row. */
  protected def commits(): Boolean

  /** Whether the server has a row with the key after the changes that were taken. */
  protected def exists: Boolean

  /** Adds the values of this row, and returns it as a version. */
  protected def version(): UnsafeRow

  /** Forgets the key. */
  protected def clear(): Unit

  final override def take(change: ChangeView): Unit = {
    follow(change.lsn, change.time)
    val begins = change.begins
    val isUpdate = change.kind == RowEffect.Update
    keyImage = if (begins || isUpdate) Image.sent(change) else Image.old(change)
    this.change(change, keyImage)
  }

  final override def truncate(truncation: Truncation): Unit = {
    follow(truncation.at.lsn, truncation.time)
    vanish()
    isEmptied = true
  }

  private def follow(lsn: Long, time: => Long): Unit = if (lsn != commit) {
    close()
    commit = lsn
    this.time = time
  }

  /** Ends a commit: gives the version that the commit ended, and opens the version that it began. */
  private def close(): Unit = if (commits()) {
    if (open != null) {
      open.setLong(format.toLsn, commit)
      open.setLong(format.toTime, time)
      open.setBoolean(format.currentFlag, false)
      rows += open
      open = null
    } else if (!isChecked) {
      val expected =
        if (isGone) RowOp.Delete else if (exists && !isEmptied) RowOp.Insert else null
      if (expected != null) {
        isChecked = true
        writer.start()
        writer.add(keyImage, onlyKey = true)
        writer.end(commit, time)
        rows += write(expected, isWhole = false, movedIn = null, movedOut = null)
      }
    }
    if (exists) {
      writer.start()
      writer.begin(commit, time)
      open = version()
    }
  }

  final override def finish(): Unit = {
    close()
    if (open != null) rows += open
    open = null
    commit = 0
    isGone = false
    isEmptied = false
    isChecked = false
    root = null
    rootAt = null
    isRootGiven = false
    clear()
  }

  /** Returns the position under which the write finds the values of the target that the change did not send. */
  protected def fromTarget(change: ChangeView): MessagePosition = {
    if (root == null) {
      root = keyImage
      rootAt = change.position
    }
    rootAt
  }

  /** Gives the row as it is before an UPDATE changes its key. */
  protected def leave(change: ChangeView, images: NewestImages): Unit = {
    writer.start()
    writer.begin(commit, time)
    images.write(writer)
    writer.add(Image.old(change))
    rows += write(RowOp.MovedOut, images.areWhole, images.movedIn, change.position)
  }

  protected def write(
      op: String,
      isWhole: Boolean,
      movedIn: MessagePosition,
      movedOut: MessagePosition
  ): UnsafeRow = {
    val row = writer.finish(op, isWhole, movedIn, movedOut).copy()
    if (writer.hasUnsent && movedIn != null && movedIn == rootAt && !isRootGiven) {
      isRootGiven = true
      writer.start()
      writer.begin(commit, time)
      writer.add(root, onlyKey = true)
      rows += write(RowOp.MovedOut, isWhole = false, movedIn = null, movedOut = rootAt)
    }
    row
  }
}

/** The versions of the row with a key, if the server sends the old key only. */
final class KeyedVersions(format: FoldFormat, writer: FoldedRowWriter)
    extends VersionFold(format, writer) {
  private val images = new NewestImages(format)
  private var isFirst = true
  protected var exists = false
  private var changed = 0L

  override protected def change(change: ChangeView, image: Image): Unit = {
    val begins = change.begins
    if (isFirst) {
      isFirst = false
      isGone = !begins && !isEmptied
      exists = isGone
    }
    if (!format.repairs && begins == exists) throw format.contradiction
    changed = commit
    change.kind match {
      case RowEffect.Delete => end()
      case RowEffect.MovedOut =>
        if (!change.isWhole) leave(change, images)
        end()
      case _ =>
        exists = true
        if (begins) images.begin(change, image)
        else {
          if (images.isEmpty && !change.isWhole) images.movedIn = fromTarget(change)
          images.add(image)
        }
    }
  }

  private def end(): Unit = {
    exists = false
    images.clear()
  }

  override protected def vanish(): Unit = if (!isFirst) {
    changed = commit
    end()
  }

  override protected def commits(): Boolean = changed == commit && !isFirst
  override protected def version(): UnsafeRow = {
    images.write(writer)
    write(RowOp.Replace, images.areWhole, images.movedIn, null)
  }

  override protected def clear(): Unit = {
    isFirst = true
    changed = 0
    end()
  }
}

/**
 * The versions of the row with a key, if the server sends the whole old row too. A deferrable key can have several
 * rows inside of a transaction, as for [[FullFold]].
 */
final class FullVersions(format: FoldFormat, writer: FoldedRowWriter)
    extends VersionFold(format, writer) {
  private val reader = new ImageReader(format)

  /**
   * A row that has come in this cut.
   *
   * @param movedIn the position of the UPDATE whose old row has the values that the message of this row lacks
   * @param lsn the LSN of the commit that added it
   */
  final private class NewVersion(val image: Image, val movedIn: MessagePosition, val lsn: Long)

  private val newVersions = mutable.ArrayBuffer.empty[NewVersion]

  /** Whether the commit has removed a row that existed before it. */
  private var hasRemoved = false

  override protected def change(change: ChangeView, image: Image): Unit = {
    val begins = change.begins
    if (!begins && !change.hasOld) throw TableError.keyNotSent(format.name)
    val movedIn = if (begins) null else remove(Image.old(change), change)
    if (begins || change.kind == RowEffect.Update)
      newVersions += new NewVersion(image, movedIn, commit)
  }

  /** Removes a row. Returns the position of the UPDATE whose old row has the values that no message has. */
  private def remove(old: Image, change: ChangeView): MessagePosition = {
    val found = reader.indexOf(newVersions.toSeq.map(_.image), old)
    if (found >= 0) {
      val row = newVersions.remove(found)
      hasRemoved |= row.lsn != commit
      row.movedIn
    } else {
      if ((isGone || isEmptied || isChecked) && !format.repairs) throw format.contradiction
      isGone |= !isEmptied
      hasRemoved = true
      fromTarget(change)
    }
  }

  override protected def vanish(): Unit = {
    hasRemoved |= newVersions.exists(_.lsn != commit)
    newVersions.clear()
  }

  override protected def commits(): Boolean = {
    if (newVersions.length > 1) {
      if (!format.repairs) throw format.contradiction
      newVersions.remove(0, newVersions.length - 1)
    }
    val hasChanged = hasRemoved || newVersions.exists(_.lsn == commit)
    hasRemoved = false
    hasChanged
  }

  override protected def exists: Boolean = newVersions.nonEmpty

  override protected def version(): UnsafeRow = {
    val row = newVersions.last
    writer.add(row.image)
    write(RowOp.Replace, row.image.isWhole || row.movedIn == null, row.movedIn, null)
  }

  override protected def clear(): Unit = {
    newVersions.clear()
    hasRemoved = false
  }
}
