package io.sparkpgoutput.lake.queue

import java.nio.ByteBuffer
import java.util.Arrays

import io.sparkpgoutput.changes.rows.RelationColumn
import io.sparkpgoutput.errors.PgOutputException
import io.sparkpgoutput.lake.catalog.{HashSalt, HiddenColumns, TableColumn, ValueHash}
import io.sparkpgoutput.protocol.MessageType.Tag
import io.sparkpgoutput.protocol.{BigEndian, EncodedTuple, TextEncoding}

/**
 * Rewrites the messages of a table, so that they lack its excluded columns and have hashes in its hashed ones.
 * All that comes after the reader sees only such messages. Not thread-safe.
 *
 * {{{
 *   Relation   R  oid  namespace  name  identity   n × (flags  name  type  modifier)
 *   Insert     I  oid  N  n × cell
 *   Update     U  oid  K or O, if there is an old row  n × cell  N  n × cell
 *   Delete     D  oid  K or O  n × cell
 *   cell       n or u, or t  length  text
 * }}}
 *
 * The length n is two bytes long. An excluded column is in no part of a message. A hashed one has the
 * type `text`, and a text becomes its hash. NULL stays NULL, and a value that was not sent stays so.
 *
 * A shown column of the type "char" can have a byte that is not ASCII. PostgreSQL 14 and 15 send it as it is, which is
 * not valid in UTF-8. It becomes the text that later versions send.
 *
 * @param kinds what happens to each column
 */
final class HiddenCells private (private val kinds: Array[Byte], private val hash: ValueHash) {
  import HiddenCells._

  private val shown = kinds.count(_ != Excluded)
  private var output = new Array[Byte](FirstSize)
  private var size = 0

  /** The bytes that messages can have before the buffer grows. */
  private[queue] def room: Int = output.length

  /** Rewrites a Relation message. */
  def relation(message: Array[Byte]): Array[Byte] = {
    val head = afterText(message, afterText(message, OidEnd)) + 1
    checkColumns(message, head)
    size = 0
    append(message, 0, head)
    appendInt16(shown)
    var at = head + CountSize
    kinds.foreach { kind =>
      val name = afterText(message, at + 1)
      if (kind != Excluded) append(message, at, name)
      if (kind == Hashed) append(TypeOfHash, 0, TypeSize)
      else if (kind != Excluded) append(message, name, name + TypeSize)
      at = name + TypeSize
    }
    written()
  }

  /** Rewrites the message of a change. A Truncate message stays as it is. */
  def change(message: Array[Byte]): Array[Byte] =
    if (message(0) == Tag.Truncate) message
    else {
      size = 0
      append(message, 0, OidEnd)
      var at = OidEnd
      while (at < message.length) at = tuple(message, at)
      written()
    }

  /** Each table has a buffer as long as the session lasts, so it does not keep the size of the largest message. */
  private def written(): Array[Byte] = {
    val message = Arrays.copyOf(output, size)
    if (output.length > MostKept) output = new Array[Byte](FirstSize)
    message
  }

  /** Rewrites a tuple and the letter before it. Returns where it ends. */
  private def tuple(message: Array[Byte], from: Int): Int = {
    checkColumns(message, from + 1)
    append(message, from, from + 1)
    appendInt16(shown)
    var at = from + 1 + CountSize
    var column = 0
    while (column < kinds.length) {
      val end = EncodedTuple.cellEnd(message, at, message.length)
      if (end < 0) throw new IndexOutOfBoundsException
      val kind = kinds(column)
      val text = at + EncodedTuple.CellHead
      if (kind == Hashed && end > at + 1) appendHash(message, at, end)
      else if (kind == Char && TextEncoding.isBareByte(message, text, end))
        appendText(TextEncoding.escaped(message(text)))
      else if (kind != Excluded) append(message, at, end)
      at = end
      column += 1
    }
    at
  }

  private def appendHash(message: Array[Byte], at: Int, end: Int): Unit = {
    if (message(at) != 't') throw new IllegalStateException("A hashed column has no text.")
    appendText(hash.of(message, at + EncodedTuple.CellHead, end))
  }

  private def appendText(text: Array[Byte]): Unit = {
    append(TextKind, 0, 1)
    appendInt16(text.length >>> 16)
    appendInt16(text.length)
    append(text, 0, text.length)
  }

  private def appendInt16(value: Int): Unit = {
    reserve(2)
    output(size) = (value >>> 8).toByte
    output(size + 1) = value.toByte
    size += 2
  }

  private def append(bytes: Array[Byte], from: Int, to: Int): Unit = {
    reserve(to - from)
    System.arraycopy(bytes, from, output, size, to - from)
    size += to - from
  }

  private def reserve(more: Int): Unit =
    if (size + more > output.length)
      output = Arrays.copyOf(output, math.max(2 * output.length, size + more))

  private def checkColumns(message: Array[Byte], at: Int): Unit = {
    val found = BigEndian.int16(message, at) & 0xffff
    if (found != kinds.length) throw new PgOutputException(
      "PGOUTPUT_MALFORMED_MESSAGE.OTHER_COLUMNS",
      "oid" -> BigEndian.uint32(message, 1),
      "found" -> found,
      "wanted" -> kinds.length
    )
  }
}

object HiddenCells {
  final private val Shown: Byte = 0
  final private val Excluded: Byte = 1
  final private val Hashed: Byte = 2
  final private val Char: Byte = 3

  private val TextKind = Array('t'.toByte)
  final private val FirstSize = 256
  final private val MostKept = 1024 * 1024

  /** The bytes up to the oid of the table: the tag and the oid. */
  final private val OidEnd = 5

  /** The number of columns. */
  final private val CountSize = 2

  /** The oid of the type and the modifier. */
  final private val TypeSize = 8

  private val TypeOfHash =
    ByteBuffer.allocate(TypeSize).putInt(TableColumn.Text.toInt).putInt(-1).array

  /**
   * Hides columns of a table.
   *
   * @param columns the names of the columns that the Relation message has
   * @param salt the salt of the hashes; None if no column is hashed
   */
  def of(columns: Seq[String], hidden: HiddenColumns, salt: Option[HashSalt]): HiddenCells = {
    val kinds = columns.map { column =>
      if (hidden.excluded.contains(column)) Excluded
      else if (hidden.hashed.contains(column)) Hashed
      else Shown
    }
    new HiddenCells(kinds.toArray, salt.map(new ValueHash(_)).orNull)
  }

  /**
   * Also rewrites the shown columns of the type "char". None if nothing is to be rewritten.
   *
   * @param hidden what hides columns of the table; None if all are shown
   * @param columns the columns that the Relation message has
   */
  def withChars(hidden: Option[HiddenCells], columns: Seq[RelationColumn]): Option[HiddenCells] =
    if (!columns.exists(isChar)) hidden
    else {
      val cells = hidden.getOrElse(of(columns.map(_.name), HiddenColumns(), None))
      val kinds = cells.kinds.zip(columns).map { case (kind, column) =>
        if (kind == Shown && isChar(column)) Char else kind
      }
      Some(new HiddenCells(kinds, cells.hash))
    }

  private def isChar(column: RelationColumn) = column.typeId == TableColumn.Char

  /**
   * Hides all columns of a table, because it is not known which one is which. The messages then have no column,
   * and if such a change is to be applied, the table is copied.
   */
  def all(columns: Seq[String]): HiddenCells = of(columns, HiddenColumns(columns), None)

  /** Returns where a text ends whose end is a zero byte. */
  private def afterText(message: Array[Byte], from: Int): Int = {
    var at = from
    while (message(at) != 0) at += 1
    at + 1
  }
}
