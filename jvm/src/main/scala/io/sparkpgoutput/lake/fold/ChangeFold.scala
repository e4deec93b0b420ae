package io.sparkpgoutput.lake.fold

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.types.StructType

import io.sparkpgoutput.lake.route.{ChangeChunk, ChangeView, MessagePosition, RowEffect}

/**
 * '''The fold''' makes one row of all changes of a key in a cut, so that one commit can write the net effect of
 * the cut. There is a fold for each way in which rows are identified: [[KeyedFold]] if the server sends the old
 * key, [[FullFold]] if it sends the old row too, [[RowCountFold]] if all columns are the key, and
 * [[InsertFold]] if rows are only inserted. [[HistoryRows]] keeps all changes.
 *
 * {{{
 *   messages ──► TableRouter ──────────────► sorted by key, ──► fold ──────────────────► KeyedWrite
 *   of a cut     key, effect on its row      LSN, ordinal       I, U, D or R, values,    MERGE with the
 *                                                               flags of unsent values   mark of the cut
 * }}}
 *
 * '''Why one row for a key is enough.''' A cut has whole transactions in the order of their commits, so the changes
 * of a key, in the order of LSN and ordinal, are what happened to the row. The first change says whether the
 * row was there before the cut, and the last one whether it is there after it. So the outcome is one of:
 * inserted, updated, deleted, replaced by another row with the key, or nothing. Rows with different keys do not
 * depend on each other, so they can be folded in any order and on any executor. If changes contradict each
 * other, for example two inserts without a delete, the table has an error (drift) and nothing is written.
 *
 * '''An UPDATE that changes the key''' is two changes: the row with the old key is removed
 * ([[RowEffect.MovedOut]]), and the row with the new key is added ([[RowEffect.MovedIn]]).
 *
 * '''Unchanged TOASTed values.''' The server does not send a TOASTed value that an UPDATE leaves as it is
 * (`logicalrep_write_tuple` in `proto.c`). The fold takes the newest value that a message of the cut has for
 * the row. With REPLICA IDENTITY FULL, the old row has it. If no message has one, the fold sets the flag of the
 * column, and the MERGE keeps the value of the target. If the UPDATE also changes the key, the target has the
 * value under the old key. So the fold also gives the row as it was when it left the old key
 * ([[RowOp.Left]]), with the position of the UPDATE, and the row under the new key has the same position
 * ([[FoldedColumns.Born]]). [[io.sparkpgoutput.lake.apply.MovedRows]] joins the two. It follows several changes
 * of the key in one cut back to the first key, under which the target has the value.
 */
object ChangeFold {

  /** The columns of the rows of a table. */
  def schema(format: FoldFormat): StructType =
    if (format.isHistory) FoldedColumns.history(format.schema)
    else if (format.key.nonEmpty) FoldedColumns.keyed(format.schema, format.unsent)
    else if (format.isFull) FoldedColumns.counted(format.schema)
    else FoldedColumns.inserted(format.schema)

  /** The rows of the changes in arrays of [[ChangeChunk]]. */
  def rows(format: FoldFormat, chunks: Iterator[Array[Byte]]): Iterator[InternalRow] =
    of(format, ChangeChunk.unpack(chunks))

  /**
   * The rows of changes. A row is valid until the next one.
   *
   * @param all the changes of a table. The changes of each key are together and in order
   */
  def of(format: FoldFormat, all: Iterator[ChangeView]): Iterator[InternalRow] = {
    val changes = format.truncated.fold(all)(position => all.filter(_.isAfter(position)))
    val writer = new FoldedRowWriter(format, schema(format))
    if (format.isHistory) new HistoryRows(format, writer, all)
    else if (format.key.isEmpty && !format.isFull) new InsertFold(format, writer, changes)
    else {
      val fold =
        if (format.key.isEmpty) new RowCountFold(format, writer)
        else if (format.isFull) new FullFold(format, writer)
        else new KeyedFold(format, writer)
      new ChangeFold(changes, fold)
    }
  }
}

/** Folds the changes of one key after the other. A row is valid until the next call. Not thread-safe. */
trait KeyFold {

  /** Takes the next change of the key. Returns a row, or null. */
  def take(change: ChangeView): UnsafeRow

  /** Ends the key. Returns its next row. It is called until it returns null. */
  def finish(): UnsafeRow
}

/**
 * The rows of a fold over sorted changes.
 *
 * @param changes the changes of a table. The changes of each key are together and in order
 */
final class ChangeFold(changes: Iterator[ChangeView], fold: KeyFold) extends Iterator[InternalRow] {

  /** The key whose changes are being taken, in these bytes. */
  private var bytes: Array[Byte] = _
  private var from = 0
  private var to = 0
  private var hash = 0L

  private var waiting: ChangeView = _
  private var found: UnsafeRow = _

  override def hasNext: Boolean = {
    while (found == null && (waiting != null || bytes != null || changes.hasNext)) advance()
    found != null
  }

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException
    val row = found
    found = null
    row
  }

  private def advance(): Unit = {
    if (waiting == null && changes.hasNext) waiting = changes.next()
    if (bytes != null && (waiting == null || !isSameKey)) {
      found = fold.finish()
      if (found == null) bytes = null
    } else {
      if (bytes == null) {
        bytes = waiting.bytes
        from = waiting.keyFrom
        to = waiting.keyTo
        hash = waiting.hash
      }
      found = fold.take(waiting)
      waiting = null
    }
  }

  private def isSameKey = waiting.hash == hash && waiting.hasKey(bytes, from, to)
}

/**
 * The net effect of the changes of a key, if the server sends the old key only.
 *
 * A key can be inserted and deleted several times in a cut. Its values come only from the changes since the
 * last insert, or since the row last moved to this key. The first change says whether the row was there
 * before.
 */
final class KeyedFold(format: FoldFormat, writer: FoldedRowWriter) extends KeyFold {
  private val reader = new ImageReader(format)

  private var isFirst = true
  private var wasThere = false
  private var exists = false

  /** The update that moved the row to this key; null if no update did. */
  private var born: MessagePosition = _

  /** The images since then whose values count, the newest first. */
  private val images = mutable.ArrayBuffer.empty[Image]

  /** The image that has the key. */
  private var last: Image = _

  /** The row of the target, if it was deleted and [[FoldFormat.splitsReplaced]] holds. */
  private var gone: Image = _
  private var isReplaced = false

  override def take(change: ChangeView): UnsafeRow = {
    val begins = change.kind == RowEffect.Insert || change.kind == RowEffect.MovedIn
    if (isFirst) {
      isFirst = false
      wasThere = !begins
      exists = wasThere
    }
    if (format.isStrict && begins == exists) throw format.differs(Twice)
    change.kind match {
      case RowEffect.Insert => begin(change, null)
      case RowEffect.MovedIn =>
        begin(change, if (change.isWhole) null else MessagePosition(change.lsn, change.ordinal))
      case RowEffect.Update =>
        exists = true
        add(Image.sent(change))
      case RowEffect.Delete   => end(change)
      case RowEffect.MovedOut => leave(change)
    }
  }

  private def begin(change: ChangeView, at: MessagePosition): UnsafeRow = {
    exists = true
    born = at
    images.clear()
    add(Image.sent(change))
  }

  private def end(change: ChangeView): UnsafeRow = {
    exists = false
    born = null
    images.clear()
    last = Image.old(change)
    if (format.splitsReplaced && wasThere && gone == null) gone = last
    null
  }

  /**
   * The row moves to another key. If the UPDATE did not send all values, the row is given as it was, so that
   * they can be found under the new key.
   */
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
    if (exists && gone != null && !isReplaced) {
      isReplaced = true
      deleted(gone)
    } else {
      val row =
        if (exists) {
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
      exists = false
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
    "its changes contradict each other: a row is inserted twice, or a row is changed that is deleted"
}

/**
 * The net effect of the changes of a key, if the server sends the whole old row too.
 *
 * A deferrable key can have several rows inside of a transaction, for example while two rows swap
 * their keys. The old row says which of them a change means.
 */
final class FullFold(format: FoldFormat, writer: FoldedRowWriter) extends KeyFold {
  private val reader = new ImageReader(format)

  /** The rows with this key that came in this cut and are still there. */
  private val rows = mutable.ArrayBuffer.empty[Image]

  /** For each of these rows, whether it is the row of the target with other values. */
  private val areUpdated = mutable.ArrayBuffer.empty[Boolean]

  /** The row of the target, after it was deleted or has moved. */
  private var gone: Image = _
  private var isReplaced = false

  override def take(change: ChangeView): UnsafeRow = {
    var isUpdated = false
    if (change.kind != RowEffect.Insert && change.kind != RowEffect.MovedIn) {
      if (!change.hasOld) throw format.keyNotSent
      isUpdated = goes(Image.old(change)) && change.kind == RowEffect.Update
    }
    if (change.kind != RowEffect.Delete && change.kind != RowEffect.MovedOut) {
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
      if (gone != null && format.isStrict) throw format.differs(Twice)
      gone = old
      true
    }
  }

  /**
   * The row that equals an old row; -1 if it is the row of the target. If the table was altered after the row
   * came, the old row can have another form. Then no transaction was open, and there is only one row.
   */
  private def indexOf(old: Image): Int = {
    val values = reader.values(old)
    val equal = rows.indexWhere { row =>
      row.definition == old.definition && reader.values(row).isSame(values)
    }
    if (equal >= 0) equal else rows.indexWhere(_.definition != old.definition)
  }

  override def finish(): UnsafeRow = {
    if (rows.length > 1 && format.isStrict) throw format.differs(Twice)
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
    "its changes contradict each other: a key has two rows, or a row is changed that is deleted"
}

/**
 * Counts how many copies of each row were inserted and deleted, for REPLICA IDENTITY FULL without a key. The
 * key of a change is the text of all values. Values with different texts can be equal, so the counts
 * of equal rows are added up later.
 */
final class RowCountFold(format: FoldFormat, writer: FoldedRowWriter) extends KeyFold {
  private var count = 0L
  private var last: Image = _

  override def take(change: ChangeView): UnsafeRow = {
    // An update that has the old row comes as two changes.
    if (change.kind == RowEffect.Update) throw format.keyNotSent
    val came = change.kind == RowEffect.Insert || change.kind == RowEffect.MovedIn
    count += (if (came) 1 else -1)
    last = if (came) Image.sent(change) else Image.old(change)
    null
  }

  override def finish(): UnsafeRow = {
    val image = last
    val found = count
    last = null
    count = 0
    if (found == 0) null
    else {
      writer.start()
      writer.add(image)
      writer.fill(areUnsent = false)
      writer.number(FoldedColumns.Count, found)
      writer.row
    }
  }
}

/**
 * The new rows of a table without a replica identity. For such a table, the server sends no updates and
 * deletes.
 */
final class InsertFold(format: FoldFormat, writer: FoldedRowWriter, changes: Iterator[ChangeView])
    extends Iterator[InternalRow] {

  override def hasNext: Boolean = changes.hasNext

  override def next(): InternalRow = {
    val change = changes.next()
    if (change.kind != RowEffect.Insert) throw format.keyNotSent
    writer.start()
    writer.add(Image.sent(change))
    writer.fill(areUnsent = false)
    writer.row
  }
}
