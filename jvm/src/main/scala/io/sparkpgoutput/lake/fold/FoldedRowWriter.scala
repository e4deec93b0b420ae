package io.sparkpgoutput.lake.fold

import java.nio.charset.StandardCharsets
import java.util.Arrays

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter
import org.apache.spark.sql.types.StructType

import io.sparkpgoutput.changes.rows.{ChangeSchema, ChangeType, MissingColumns, NameArray, RowImage}
import io.sparkpgoutput.errors.PgOutputException
import io.sparkpgoutput.lake.route.{
  ChangeTuples,
  ChangeView,
  KeyBytes,
  MessagePosition,
  RowEffect,
  TransactionStart
}
import io.sparkpgoutput.protocol.BeginMessage
import io.sparkpgoutput.rows.CellReader
import io.sparkpgoutput.types.ValueWriter

/**
 * Writes a row with the columns of the target from one image or several: a column has the value of the first
 * image that has a value for it. Not thread-safe.
 *
 * @param rowType one of the structs of [[FoldedColumns]]
 */
final class FoldedRowWriter(format: FoldFormat, rowType: StructType) {
  private val writer = new UnsafeRowWriter(rowType.length, 512)
  private val out = ValueWriter.all(writer, rowType)
  private val ordinals = rowType.fieldNames.zipWithIndex.toMap
  private val images = new ImageReader(format)
  private val isWritten = new Array[Boolean](format.schema.length)
  private val readers = new Array[Array[CellReader]](format.definitions.length)

  private val isKey: Array[Boolean] = format.schema.indices.map(format.key.contains).toArray

  /** The place of the flag of each column; -1 if it has none. */
  private val flags: Array[Int] = format.schema.indices.map { ordinal =>
    rowType.fieldNames.indexOf(FoldedColumns.unsent(ordinal))
  }.toArray

  def start(): Unit = {
    writer.reset()
    writer.zeroOutNullBytes()
    Arrays.fill(isWritten, false)
  }

  /** Adds the values that the earlier images do not have, or only those of the key. */
  def add(image: Image, onlyKey: Boolean = false): Unit = {
    val row = images.start(image)
    val columns = readersOf(image.definition)
    var column = 0
    while (column < columns.length) {
      val reader = columns(column)
      if (reader != null) {
        val ordinal = format.definitions(image.definition).ordinals(column)
        if (!isWritten(ordinal) && (!onlyKey || isKey(ordinal))) {
          val kind = row.goTo(column)
          if (kind != RowImage.Missing) {
            isWritten(ordinal) = true
            val invalid = reader.read(kind, row.cells)
            if (invalid != null) {
              val what = reader.describe(kind, row.cells, invalid)
              throw new PgOutputException(
                "PGOUTPUT_INVALID_VALUE.IN_REPLICATED_CHANGE",
                "table" -> format.name,
                "problem" -> what,
                "column" -> format.schema(ordinal).name
              )
            }
          }
        }
      }
      column += 1
    }
  }

  /** Whether a column of the row is flagged. */
  var hasUnsent = false

  /**
   * Writes NULL for the columns that have no value.
   *
   * @param areUnsent true flags them
   */
  def fill(areUnsent: Boolean): Unit = {
    hasUnsent = false
    var ordinal = 0
    while (ordinal < isWritten.length) {
      if (!isWritten(ordinal)) out(ordinal).setNull()
      if (flags(ordinal) >= 0) {
        val isUnsent = areUnsent && !isWritten(ordinal)
        out(flags(ordinal)).write(isUnsent)
        hasUnsent |= isUnsent
      }
      ordinal += 1
    }
  }

  /**
   * Marks the row as one that a commit has deleted. It comes before [[fill]].
   *
   * @param time the time of the commit, in microseconds since 1970
   */
  def delete(lsn: Long, time: Long): Unit = {
    put(format.deletedAt, time)
    put(format.deletedLsn, lsn)
  }

  /**
   * Writes when a version begins. It is current. It comes before [[fill]].
   *
   * @param time the time of the commit, in microseconds since 1970
   */
  def begin(lsn: Long, time: Long): Unit = {
    put(format.fromLsn, lsn)
    put(format.fromTime, time)
    out(format.currentFlag).write(true)
    isWritten(format.currentFlag) = true
  }

  /**
   * Writes when the version of the target ends, which keeps its other values. It comes before [[fill]].
   *
   * @param time the time of the commit, in microseconds since 1970
   */
  def end(lsn: Long, time: Long): Unit = {
    put(format.toLsn, lsn)
    put(format.toTime, time)
    out(format.currentFlag).write(false)
    isWritten(format.currentFlag) = true
  }

  private def put(ordinal: Int, value: Long): Unit = {
    out(ordinal).write(value)
    isWritten(ordinal) = true
  }

  /** Adds the columns of a definition that the target has, and that have no value. */
  def addMissing(definition: Int, missing: MissingColumns): Unit = {
    val ordinals = format.definitions(definition).ordinals
    ordinals.indices.foreach { column =>
      if (ordinals(column) >= 0 && !isWritten(ordinals(column))) missing.add(column)
    }
  }

  /** Writes a string, binary or array, as a row has it. */
  def bytes(name: String, value: Array[Byte]): Unit = {
    val column = out(ordinals(name))
    if (value == null) column.setNull() else column.write(value, 0, value.length)
  }

  def number(name: String, value: Long): Unit = out(ordinals(name)).write(value)

  /** Writes a position into two columns, or NULL for none. */
  def position(names: Seq[String], value: MessagePosition): Unit =
    if (value == null) names.foreach(name => out(ordinals(name)).setNull())
    else {
      number(names.head, value.lsn)
      number(names(1), value.ordinal)
    }

  /**
   * Ends the row of a key.
   *
   * @param isWhole true makes a column without a value NULL; false sets its flag
   * @param movedIn
   *   the UPDATE whose row [[RowOp.MovedOut]] leads to the flagged values; null if the target has them under this key
   * @param movedOut the UPDATE that gave the row another key; null if there was none
   */
  def finish(
      op: String,
      isWhole: Boolean,
      movedIn: MessagePosition = null,
      movedOut: MessagePosition = null
  ): UnsafeRow = {
    fill(areUnsent = !isWhole)
    bytes(FoldedColumns.Op, op.getBytes(StandardCharsets.US_ASCII))
    position(FoldedColumns.MovedIn, if (hasUnsent) movedIn else null)
    position(FoldedColumns.MovedOut, movedOut)
    row
  }

  def row: UnsafeRow = writer.getRow

  private def readersOf(number: Int): Array[CellReader] = {
    if (readers(number) == null) {
      val definition = format.definitions(number)
      readers(number) = definition.ordinals.zip(definition.relation.columns).map {
        case (-1, _) => null
        case (ordinal, column) =>
          val field = format.schema(ordinal)
          val pgType = definition.types.byOid(column.typeId)
          val conversion = pgType.to(field.dataType, format.optionsOf(ordinal)).get
          new CellReader(field, pgType, conversion, out(ordinal))
      }.toArray
    }
    readers(number)
  }
}

/**
 * A row as a message has it.
 *
 * @param bytes the bytes that have the message from `from` on
 * @param definition the number of the table's definition
 * @param isOld true for the old row of the message, false for its new row
 * @param isWhole
 *   true if a column without a value is NULL; false if it keeps its old value
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
    // It stays in memory for long, so it must not keep the other changes of the same array there.
    else new Image(change.message, 0, change.definition, isOld = false, isWhole = false)

  def old(change: ChangeView): Image =
    new Image(change.bytes, change.messageFrom, change.definition, isOld = true, isWhole = false)
}

/** Reads the cells of row images. Not thread-safe. */
final class ImageReader(format: FoldFormat) {
  private val tuples = new ChangeTuples
  private val cells = new RowImage
  private val isIdentity: Array[Array[Boolean]] =
    format.definitions.map(_.relation.columns.map(_.isKey).toArray).toArray
  private val ordinals: Array[Array[Int]] = format.definitions.map(_.ordinals.toArray).toArray

  /** Starts with the cells of an image, from the first column on. */
  def start(image: Image): RowImage = {
    tuples.start(image.bytes, image.from)
    if (image.isOld) tuples.readOld(isIdentity(image.definition), cells)
    else tuples.readNew(isIdentity(image.definition), cells)
    cells
  }

  /** Returns for each column of the target whether the image has its value. */
  def sent(image: Image): Array[Boolean] = {
    val hasValue = new Array[Boolean](format.schema.length)
    if (image.isWhole) Arrays.fill(hasValue, true)
    else {
      val row = start(image)
      val targets = ordinals(image.definition)
      targets.indices.foreach { column =>
        val isSent = row.goTo(column) != RowImage.Missing
        if (targets(column) >= 0) hasValue(targets(column)) = isSent
      }
    }
    hasValue
  }

  /**
   * Returns which of the rows of a key that have come equals an old row; -1 if none does. If the table was altered
   * after a row came, the old row can have another form. Then no transaction was open, and there is only one row.
   */
  def indexOf(rows: Seq[Image], old: Image): Int =
    if (rows.isEmpty) -1
    else {
      val wanted = values(old)
      val equal =
        rows.indexWhere(row => row.definition == old.definition && values(row).isSame(wanted))
      if (equal >= 0) equal else rows.indexWhere(_.definition != old.definition)
    }

  /** The bytes of all values of an image, which are equal if the rows are. */
  private def values(image: Image): KeyBytes = {
    val row = start(image)
    val texts = new KeyBytes
    ordinals(image.definition).indices.foreach { column =>
      if (row.goTo(column) == 't') texts.add(row.cells.bytes, row.cells.from, row.cells.to)
      else texts.addNull()
    }
    texts
  }
}

/** The images of a row whose values count, the newest first. Not thread-safe. */
final class NewestImages(format: FoldFormat) {
  private val reader = new ImageReader(format)
  private val images = mutable.ArrayBuffer.empty[Image]

  /** The position of the UPDATE whose old row has the values that no image has; null if no value is missing. */
  private[fold] var movedIn: MessagePosition = _

  def isEmpty: Boolean = images.isEmpty
  def toSeq: Seq[Image] = images.toSeq

  def clear(): Unit = {
    images.clear()
    movedIn = null
  }

  /** Begins with the image of a row that comes. If an UPDATE moves it to its key, its old row can have values. */
  def begin(change: ChangeView, image: Image): Unit = {
    clear()
    if (change.kind == RowEffect.MovedIn && !change.isWhole) movedIn = change.position
    add(image)
  }

  /** Whether a column without a value is NULL. */
  def areWhole: Boolean = images.nonEmpty && images.last.isWhole

  def write(writer: FoldedRowWriter): Unit = images.foreach(writer.add(_))

  /** Adds the newest image, and forgets each image whose values are all in newer images. */
  def add(image: Image): Unit = {
    if (image.isWhole) images.clear()
    else {
      val hasValue = reader.sent(image)
      images.filterInPlace { older =>
        val before = hasValue.count(identity)
        reader.sent(older).zipWithIndex.foreach { case (isSent, index) =>
          hasValue(index) |= isSent
        }
        hasValue.count(identity) > before
      }
    }
    images.prepend(image): Unit
  }
}

/**
 * The rows of a table's history. Each change has the rows that `pgoutput_changes` gives it, with other
 * ordinals: twice the position of the message in its transaction, and one more after a preimage.
 *
 * @param changes the changes of a table that keeps its history
 * @param writer writes the columns of [[ChangeFold.schema]]
 */
final class HistoryRows(
    format: FoldFormat,
    writer: FoldedRowWriter,
    changes: Iterator[ChangeView]
) extends Iterator[InternalRow] {
  import ChangeSchema._

  private val keys = format.definitions.map(definition =>
    NameArray.of(definition.relation.columns.filter(_.isKey).map(_.name))
  )
  private val missing =
    format.definitions.map(definition => new MissingColumns(definition.relation))
  private var change: ChangeView = _

  /** True if the preimage of the change was the last row. */
  private var isBetween = false

  override def hasNext: Boolean = isBetween || changes.hasNext

  override def next(): InternalRow =
    if (isBetween) {
      isBetween = false
      row(ChangeType.UpdatePostimage, sent)
    } else {
      change = changes.next()
      change.kind match {
        case RowEffect.Insert   => row(ChangeType.Insert, sent)
        case RowEffect.Delete   => row(ChangeType.Delete, Image.old(change))
        case RowEffect.Truncate => row(ChangeType.Truncate, null)
        case _ if change.hasOld =>
          isBetween = true
          row(ChangeType.UpdatePreimage, Image.old(change))
        case _ => row(ChangeType.UpdatePostimage, sent)
      }
    }

  private def name(field: Int) = schema(field).name

  private def sent =
    new Image(change.bytes, change.messageFrom, change.definition, isOld = false, isWhole = false)

  /** @param image null for a row whose columns are all NULL */
  private def row(changeType: ChangeType, image: Image): InternalRow = {
    val names = missing(change.definition)
    names.clear()
    writer.start()
    if (image != null) {
      writer.add(image)
      writer.addMissing(image.definition, names)
    }
    writer.fill(areUnsent = false)
    val transaction = change.transaction
    val behind = if (changeType eq ChangeType.UpdatePreimage) 0 else 1
    writer.bytes(name(CHANGE_TYPE), changeType.nameBytes)
    writer.number(name(COMMIT_VERSION), change.lsn)
    writer.number(name(COMMIT_TIMESTAMP), BeginMessage.timestamp(transaction))
    writer.number(name(XID), BeginMessage.xid(transaction))
    writer.bytes(name(ORIGIN), TransactionStart.origin(transaction))
    writer.number(name(ORDINAL), 2 * change.ordinal + behind)
    writer.bytes(name(KEYS), keys(change.definition))
    writer.bytes(name(MISSING), names.names)
    writer.row
  }
}
