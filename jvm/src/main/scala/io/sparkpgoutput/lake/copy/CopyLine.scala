package io.sparkpgoutput.lake.copy

import java.util.Arrays

import org.apache.spark.unsafe.Platform

import io.sparkpgoutput.protocol.TupleCells

/**
 * The cells of a row that COPY … TO STDOUT has written in its text format: the columns have tabs
 * between them, NULL is `\N`, and a backslash escapes some characters (`CopyAttributeOutText`).
 */
final class CopyLine(override val columns: Int) extends TupleCells {
  import CopyLine._

  private var line: Array[Byte] = Array.emptyByteArray

  /** The place of the line feed at the end of the row. */
  private var end = 0
  private var column = 0
  private var next = 0
  private var unescaped = new Array[Byte](FirstSize)

  /** Begins with a row, which ends with a line feed. */
  def start(row: Array[Byte]): Unit = {
    line = row
    end = row.length - 1
    column = 0
    next = 0
    if (end < 0 || row(end) != '\n') throw malformed("does not end with a line feed")
  }

  /** Checks that the row has no more columns than were read. */
  def finish(): Unit = if (columns > 0 && next != end + 1) throw malformed("has too many columns")

  override def goTo(wanted: Int): Int = {
    while (column < wanted) read()
    read()
  }

  private def read(): Int = {
    if (next > end) throw malformed(s"has $column columns")
    column += 1
    val row = line
    val start = next
    val at = cellEnd(row, start, end)
    if (at == end || row(at) == Tab) {
      bytes = row
      from = start
      to = at
      next = at + 1
      't'
    } else if (at == start && isNull(at)) {
      next = at + NullSize + 1
      'n'
    } else {
      unescape(start, at)
      't'
    }
  }

  /** Finds the next tab, backslash or the end of the row. It looks at eight bytes at once. */
  private def cellEnd(row: Array[Byte], start: Int, end: Int): Int = {
    var at = start
    while (at <= end - WordSize && !hasSpecial(word(row, at))) at += WordSize
    while (at < end && row(at) != Tab && row(at) != Backslash) at += 1
    at
  }

  private def word(row: Array[Byte], at: Int) =
    Platform.getLong(row, Platform.BYTE_ARRAY_OFFSET.toLong + at)

  private def hasSpecial(word: Long) = (zeros(word ^ Tabs) | zeros(word ^ Backslashes)) != 0

  /** Returns 0 if no byte is 0. */
  private def zeros(word: Long) = (word - Ones) & ~word & Highest

  private def isNull(at: Int) = at + 1 < end && line(at + 1) == 'N' &&
    (at + NullSize == end || line(at + NullSize) == Tab)

  /** Copies a cell without its escapes. The first one is at `firstEscape`. */
  private def unescape(start: Int, firstEscape: Int): Unit = {
    var at = firstEscape
    var size = firstEscape - start
    reserve(size)
    System.arraycopy(line, start, unescaped, 0, size)
    while (at < end && line(at) != Tab) {
      if (size == unescaped.length) reserve(size + 1)
      if (line(at) == Backslash) {
        at += 1
        if (at == end) throw malformed("ends with a backslash")
        unescaped(size) = value(line(at))
      } else unescaped(size) = line(at)
      size += 1
      at += 1
    }
    bytes = unescaped
    from = 0
    to = size
    next = at + 1
  }

  private def value(escaped: Byte): Byte = escaped.toChar match {
    case 'b' => '\b'
    case 'f' => '\f'
    case 'n' => '\n'
    case 'r' => '\r'
    case 't' => '\t'
    case 'v' => VerticalTab
    case _   => escaped
  }

  private def reserve(size: Int): Unit =
    if (size > unescaped.length) {
      // An escape makes a cell shorter, so no cell is longer than its row.
      val wanted = math.min(2L * size, math.max(size, line.length).toLong)
      unescaped = Arrays.copyOf(unescaped, wanted.toInt)
    }

  private def malformed(problem: String) =
    new IllegalStateException(s"A row of COPY with $columns columns $problem")
}

private object CopyLine {
  final private val Tab = '\t'
  final private val Backslash = '\\'
  final private val WordSize = 8
  final private val Ones = 0x0101010101010101L
  final private val Highest = 0x8080808080808080L
  final private val Tabs = Ones * Tab
  final private val Backslashes = Ones * Backslash
  final private val VerticalTab: Byte = 11
  final private val NullSize = 2
  final private val FirstSize = 256
}
