package io.sparkpgoutput.lake.fold

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.types.{LongType, StructField, StructType}

import io.sparkpgoutput.lake.catalog.{TableError, TableMode}
import io.sparkpgoutput.lake.route.{ChangeChunk, ChangeView, MessagePosition, RowEffect, Truncation}

/**
 * '''The fold''' gives the net effect of all changes of a key in a cut (whole transactions that one commit writes).
 * This is one row in most cases. A key gives no row if nothing is left to do. It gives two rows if a row is replaced,
 * and one more if an UPDATE gives the row another key and does not send all values. There is a fold for each way in
 * which rows are identified: [[KeyedFold]] if the server sends the old key, [[FullFold]] if it sends the old row too,
 * and [[RowCountFold]] if all columns are the key. Rows that are only inserted need no fold. [[VersionFold]] makes
 * versions of the rows, and [[HistoryRows]] keeps all changes.
 *
 * {{{
 *   messages ──► CutRouter ────────────────► grouped by key, ─► fold ──────────────────► DirectWrite or KeyedWrite
 *   of a cut     key, effect on its row      in order of LSN    operation (RowOp),       one commit with the
 *                                            and ordinal        values, flags            mark of the cut
 * }}}
 *
 * The ordinal of a change is its place in its transaction. The LSN and the ordinal are the position of the change. The
 * flag of a column says that no change has sent its value since the row got this key.
 *
 * '''Why the net effect is enough.''' A cut has whole transactions in the order of their commits, so the changes of a
 * key, in the order of LSN and ordinal, are what happened to the row. The first change says whether the row was there
 * before the cut, and the last one whether it is there after it. So the outcome is one of: inserted, updated, deleted,
 * replaced by another row with the key, or nothing. A row that is deleted and inserted again is an update, unless the
 * target has columns that the server does not have ([[FoldFormat.splitsReplaced]]). Rows with different keys do not
 * depend on each other, so they can be folded in any order and on any executor. If changes contradict each other, for
 * example two inserts without a delete, the target has other rows than the changes expect (''drift''). The table then
 * has an error, and nothing is written. With `onDrift` = `repair`, the last change counts.
 *
 * '''An UPDATE that changes the key''' is two changes: the row with the old key is removed
 * ([[RowEffect.MovedOut]]), and the row with the new key is added ([[RowEffect.MovedIn]]).
 *
 * '''Unchanged TOASTed values.''' The server does not send a TOASTed value that an UPDATE leaves as it is
 * (`logicalrep_write_tuple` in `proto.c`). The fold takes the newest value that a message of the cut has for
 * the row under this key. With REPLICA IDENTITY FULL, the old row has it. If no message has one, the fold sets
 * the flag of the column, and the write keeps the value that the target has under the same key.
 *
 * If an UPDATE changes the key and does not send a value, the messages of the old key can have it, or the target has it
 * under the old key. So the fold gives one more row under the old key, [[RowOp.MovedOut]]. This row has the values from
 * just before the UPDATE. [[FoldedColumns.MovedOut]] in this row and [[FoldedColumns.MovedIn]] in the row under the new
 * key have the same value: the position of the UPDATE. A direct write ([[io.sparkpgoutput.lake.apply.DirectWrite]])
 * looks the value up by these positions, and other writes join the rows ([[io.sparkpgoutput.lake.apply.MovedRows]]).
 * Both follow several changes of the key in one cut back to the first key, under which the target has the value. If the
 * target lacks this row, the table has an error, also if `onDrift` is `repair`. If an UPDATE moves a row into the row
 * filter of the publication, the server sends it as an INSERT that lacks the value, and the table is copied.
 *
 * In a history, each value that the server did not send is NULL, and the column `_missing` names its column.
 *
 * '''If deleted rows are marked''' ([[FoldFormat.marks]]), a deleted row stays in the target, with its last values, and
 * with the LSN and the time of the commit. So the outcome is a row that exists at the server, or a marked row. A
 * TRUNCATE is a deletion of each row. The operation ([[RowOp]]) says what the target has before:
 *
 *  - I: no row, or a marked one.
 *  - U: a row that is not marked.
 *  - R: all changes of the key come after a TRUNCATE of the cut, which marks what the target has.
 *
 * A transaction marks only rows that existed before it. So a row that is inserted and deleted in one transaction leaves
 * nothing, and a row that is inserted in one transaction and deleted in a later one leaves a marked row. This does not
 * depend on where cuts end.
 */
object ChangeFold {

  /** The columns of the rows of a table. */
  def schema(format: FoldFormat): StructType = {
    def columns = FoldedColumns.columns(format.schema)
    if (format.isHistory) StructType(columns ++ TableMode.History.fields)
    else if (format.key.nonEmpty) FoldedColumns.keyed(format.schema, format.unsent)
    else if (format.isFull) StructType(columns :+ StructField(FoldedColumns.Count, LongType))
    else StructType(columns)
  }

  /** The rows of the changes in arrays of [[ChangeChunk]]. */
  def rows(format: FoldFormat, chunks: Iterator[Array[Byte]]): Iterator[InternalRow] =
    of(format, ChangeChunk.unpack(chunks))

  /**
   * The rows of changes. A row is valid until the next one.
   *
   * @param all the changes of a table. The changes of each key are together and in order
   */
  def of(format: FoldFormat, all: Iterator[ChangeView]): Iterator[InternalRow] = {
    // If no rows are kept, the changes before the last TRUNCATE do not count.
    val changes =
      if (format.keepsRows) all
      else format.truncations.lastOption.fold(all)(last => all.filter(_.isAfter(last.at)))
    val writer = new FoldedRowWriter(format, schema(format))
    if (format.isHistory) new HistoryRows(format, writer, all)
    else if (format.key.isEmpty && !format.isFull) changes.map(inserted(format, writer, _))
    else {
      val fold =
        if (format.key.isEmpty) new RowCountFold(format, writer)
        else if (format.hasVersions && format.isFull) new FullVersions(format, writer)
        else if (format.hasVersions) new KeyedVersions(format, writer)
        else if (format.isFull) new FullFold(format, writer)
        else new KeyedFold(format, writer)
      new ChangeFold(changes, fold, if (format.keepsRows) format.truncations else Vector.empty)
    }
  }

  /**
   * The new row of a table without a replica identity. For such a table, the server sends no updates and
   * deletes.
   */
  private def inserted(
      format: FoldFormat,
      writer: FoldedRowWriter,
      change: ChangeView
  ): InternalRow = {
    if (change.kind != RowEffect.Insert) throw TableError.keyNotSent(format.name)
    writer.start()
    writer.add(Image.sent(change))
    writer.fill(areUnsent = false)
    writer.row
  }
}

/** Folds the changes of one key after the other. Not thread-safe. */
abstract class KeyFold {

  /** The rows that nobody has taken yet. The last one is valid until the fold takes the next change. */
  val rows: mutable.Queue[UnsafeRow] = mutable.Queue.empty

  /** Takes the next change of the key. */
  def take(change: ChangeView): Unit

  /** All rows of the table are deleted after the last change of the key that was taken, or before the first one. */
  def truncate(truncation: Truncation): Unit

  /** Ends the changes of the key. */
  def finish(): Unit
}

/**
 * The rows of a fold over changes.
 *
 * @param all the changes of a table. The changes of each key are together and in order
 * @param truncations each TRUNCATE that the fold has to know
 */
final class ChangeFold(
    all: Iterator[ChangeView],
    fold: KeyFold,
    truncations: IndexedSeq[Truncation]
) extends Iterator[InternalRow] {
  private val changes = all.buffered

  /** The key whose changes are being taken, in these bytes; null before the first change of a key. */
  private var bytes: Array[Byte] = _
  private var from = 0
  private var to = 0
  private var hash = 0L

  /** How often the table was truncated before the last change of the key. */
  private var truncated = 0

  override def hasNext: Boolean = {
    while (fold.rows.isEmpty && (bytes != null || changes.hasNext)) follow()
    fold.rows.nonEmpty
  }

  override def next(): InternalRow =
    if (hasNext) fold.rows.dequeue() else throw new NoSuchElementException

  private def follow(): Unit =
    if (bytes != null && (!changes.hasNext || !isSameKey(changes.head))) {
      truncateUntil(_ => true)
      fold.finish()
      bytes = null
      truncated = 0
    } else {
      val change = changes.next()
      if (bytes == null) {
        bytes = change.bytes
        from = change.keyFrom
        to = change.keyTo
        hash = change.hash
      }
      truncateUntil(change.isAfter)
      fold.take(change)
    }

  private def truncateUntil(isDue: MessagePosition => Boolean): Unit =
    while (truncated < truncations.length && isDue(truncations(truncated).at)) {
      fold.truncate(truncations(truncated))
      truncated += 1
    }

  private def isSameKey(change: ChangeView) =
    change.hash == hash && change.hasKey(bytes, from, to)
}

/**
 * The net effect of the changes of a key, if the server sends the old key only.
 *
 * A key can be inserted and deleted several times in a cut. Its values come only from the changes since the
 * last insert, or since the row last moved to this key. The first change says whether the row was there
 * before.
 */
final class KeyedFold(format: FoldFormat, writer: FoldedRowWriter) extends KeyFold {
  private var isFirst = true
  private var wasThere = false
  private var exists = false

  /** The images of the row since it came to the key, as far as their values count, the newest first. */
  private val images = new NewestImages(format)

  /** The image that has the key. */
  private var keyImage: Image = _

  /** The row of the target, if it was deleted and [[FoldFormat.splitsReplaced]] holds. */
  private var targetRow: Image = _

  /** Whether there was a TRUNCATE, and whether it came before the first change. */
  private var (isEmptied, beginsEmptied) = (false, false)

  /** Whether the row existed before the commit whose changes are being taken. */
  private var existed = false
  private var commit = 0L

  /** The last row that was deleted and is to be marked, if no row with the key comes after it. */
  private var markedRow: MarkedRow = _

  override def take(change: ChangeView): Unit = {
    val begins = change.begins
    if (isFirst) {
      isFirst = false
      beginsEmptied = isEmptied
      wasThere = !begins && !isEmptied
      exists = wasThere
    }
    follow(change.lsn)
    if (!format.repairs && begins == exists) throw format.contradiction
    change.kind match {
      case RowEffect.Delete   => end(change)
      case RowEffect.MovedOut => leave(change)
      case _ =>
        exists = true
        keyImage = Image.sent(change)
        if (begins) images.begin(change, keyImage) else images.add(keyImage)
    }
  }

  private def follow(lsn: Long): Unit = if (lsn != commit) {
    commit = lsn
    existed = exists
  }

  override def truncate(truncation: Truncation): Unit = {
    isEmptied = true
    if (!isFirst) {
      follow(truncation.at.lsn)
      vanish(keyImage, truncation.time)
    }
  }

  private def vanish(image: Image, time: => Long): Unit = {
    if (format.marks && existed)
      markedRow = new MarkedRow(images.toSeq :+ image, images.movedIn, commit, time)
    existed = false
    exists = false
    images.clear()
  }

  private def end(change: ChangeView): Unit = {
    keyImage = Image.old(change)
    vanish(keyImage, change.time)
    if (format.splitsReplaced && wasThere && targetRow == null) targetRow = keyImage
  }

  /**
   * The row moves to another key. If the UPDATE did not send all values, the fold also gives the row as it was, so that
   * the write finds the values for the new key.
   */
  private def leave(change: ChangeView): Unit = {
    if (!change.isWhole) {
      writer.start()
      images.write(writer)
      writer.add(Image.old(change))
      rows += writer.finish(RowOp.MovedOut, images.areWhole, images.movedIn, change.position)
    }
    end(change)
  }

  override def finish(): Unit = {
    val isReplaced = exists && targetRow != null
    if (isReplaced) rows += deleted(targetRow).copy()
    def op =
      if (isReplaced || beginsEmptied) RowOp.Replace
      else if (wasThere) RowOp.Update
      else RowOp.Insert
    if (exists) {
      writer.start()
      images.write(writer)
      rows += writer.finish(op, images.areWhole, images.movedIn)
    } else if (markedRow != null) {
      val isWhole = markedRow.add(writer)
      rows += writer.finish(op, isWhole, markedRow.movedIn)
    } else if (wasThere) rows += deleted(keyImage)
    isFirst = true
    wasThere = false
    exists = false
    targetRow = null
    isEmptied = false
    beginsEmptied = false
    commit = 0
    markedRow = null
    images.clear()
  }

  private def deleted(row: Image): UnsafeRow = {
    writer.start()
    writer.add(row)
    writer.finish(RowOp.Delete, isWhole = true)
  }
}

/**
 * A row that the server has deleted, and that stays in the target.
 *
 * @param images the images that have its values, the newest first. The last one has its key.
 * @param movedIn the update that moved it to its key and did not send all values; null if none did
 * @param lsn the commit that deleted it
 * @param time the time of that commit, in microseconds since 1970
 */
final private class MarkedRow(
    images: Seq[Image],
    val movedIn: MessagePosition,
    lsn: Long,
    time: Long
) {

  /** Writes the row. Returns whether a column without a value is NULL. */
  def add(writer: FoldedRowWriter): Boolean = {
    writer.start()
    images.foreach(writer.add(_))
    writer.delete(lsn, time)
    images.exists(_.isWhole)
  }
}

/**
 * The net effect of the changes of a key, if the server sends the whole old row too.
 *
 * A deferrable key can have several rows inside of a transaction, for example while two rows swap their keys. The old
 * row of a change says which of them changes.
 */
final class FullFold(format: FoldFormat, writer: FoldedRowWriter) extends KeyFold {
  private val reader = new ImageReader(format)

  /**
   * A row that has come in this cut.
   *
   * @param isUpdated whether it is the row of the target with other values
   * @param lsn the LSN of the commit that added or updated it
   * @param existed whether this commit has updated a row that existed before the commit
   */
  final private class NewRow(
      val image: Image,
      val isUpdated: Boolean,
      lsn: Long,
      existed: Boolean
  ) {

    /** Whether the row existed before a commit. */
    def existedBefore(commit: Long): Boolean = existed || lsn != commit
  }

  /** The rows with this key that came in this cut and are still there. */
  private val newRows = mutable.ArrayBuffer.empty[NewRow]

  /** The row of the target, after it was deleted or has moved. */
  private var targetRow: Image = _

  /** Whether a TRUNCATE has deleted the row of the target. */
  private var isEmptied = false

  /**
   * Whether the target had no row with the key before the first TRUNCATE, because an earlier commit of the cut has
   * added one. A row of the transaction with the TRUNCATE does not prove this: if the key is deferrable, the
   * transaction can add a row beside the row of the target, which the TRUNCATE deletes.
   */
  private var wasMissing = false

  /** The last row that was deleted and is to be marked, if no row with the key comes after it. */
  private var markedRow: MarkedRow = _

  override def take(change: ChangeView): Unit = {
    val isUpdate = change.kind == RowEffect.Update
    val before =
      if (change.begins) null
      else if (!change.hasOld) throw TableError.keyNotSent(format.name)
      else remove(Image.old(change))
    if (before == null || isUpdate) newRows += new NewRow(
      Image.sent(change),
      isUpdate && before.isUpdated,
      change.lsn,
      isUpdate && before.existedBefore(change.lsn)
    )
    else if (format.marks && before.existedBefore(change.lsn))
      mark(Image.old(change), change.lsn, change.time)
  }

  private def mark(image: Image, lsn: Long, time: Long): Unit =
    markedRow = new MarkedRow(Seq(image), null, lsn, time)

  override def truncate(truncation: Truncation): Unit = {
    val lsn = truncation.at.lsn
    val existing = newRows.filter(_.existedBefore(lsn))
    if (!isEmptied) wasMissing = targetRow == null && (markedRow != null || existing.nonEmpty)
    isEmptied = true
    existing.foreach(row => mark(row.image, lsn, truncation.time))
    newRows.clear()
  }

  /** Removes a row, and returns it. */
  private def remove(old: Image): NewRow = {
    val index = reader.indexOf(newRows.toSeq.map(_.image), old)
    if (index >= 0) newRows.remove(index)
    else {
      if ((targetRow != null || isEmptied) && !format.repairs) throw format.contradiction
      if (!isEmptied) targetRow = old
      new NewRow(old, isUpdated = true, lsn = 0, existed = !isEmptied)
    }
  }

  override def finish(): Unit = {
    if (newRows.length > 1 && !format.repairs) throw format.contradiction
    val isReplaced =
      format.splitsReplaced && targetRow != null && newRows.lastOption.exists(!_.isUpdated)
    if (isReplaced) rows += write(targetRow, RowOp.Delete).copy()
    def op =
      if (isReplaced || isEmptied && targetRow == null && !wasMissing) RowOp.Replace
      else if (targetRow == null) RowOp.Insert
      else RowOp.Update
    if (newRows.nonEmpty) rows += write(newRows.last.image, op)
    else if (markedRow != null) rows += write(op, markedRow.add(writer))
    else if (targetRow != null) rows += write(targetRow, RowOp.Delete)
    newRows.clear()
    targetRow = null
    isEmptied = false
    wasMissing = false
    markedRow = null
  }

  private def write(image: Image, op: String): UnsafeRow = {
    writer.start()
    writer.add(image)
    write(op, image.isWhole)
  }

  private def write(op: String, isWhole: Boolean): UnsafeRow =
    writer.finish(op, isWhole || op != RowOp.Update)
}

/**
 * Counts how many copies of each row were inserted and deleted, for REPLICA IDENTITY FULL without a key. The
 * key of a change is the text of all values. Values with different texts can be equal, so the counts
 * of equal rows are added up later.
 */
final class RowCountFold(format: FoldFormat, writer: FoldedRowWriter) extends KeyFold {
  private var count = 0L
  private var last: Image = _

  override def take(change: ChangeView): Unit = {
    // An update that has the old row comes as two changes.
    if (change.kind == RowEffect.Update) throw TableError.keyNotSent(format.name)
    count += (if (change.begins) 1 else -1)
    last = if (change.begins) Image.sent(change) else Image.old(change)
  }

  /** Rows without a key are not marked. */
  override def truncate(truncation: Truncation): Unit = ()

  override def finish(): Unit = {
    if (count != 0) {
      writer.start()
      writer.add(last)
      writer.fill(areUnsent = false)
      writer.number(FoldedColumns.Count, count)
      rows += writer.row
    }
    last = null
    count = 0
  }
}
