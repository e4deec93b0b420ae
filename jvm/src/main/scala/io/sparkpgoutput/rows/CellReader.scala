package io.sparkpgoutput.rows

import java.nio.charset.StandardCharsets

import org.apache.spark.sql.types.StructField

import io.sparkpgoutput.protocol.TupleCells
import io.sparkpgoutput.types.{Conversion, InvalidValue, PgType, TextBuffer, ValueWriter}

/** Reads the cells of one column and writes them to one member of a row. Not thread-safe. */
final class CellReader(
    field: StructField,
    pgType: PgType,
    conversion: Conversion,
    out: ValueWriter
) {

  /**
   * Reads the current cell. A cell without a value gives NULL.
   *
   * @return
   *   null, or what is wrong with a value that does not fit. NULL is written for such a value.
   */
  def read(kind: Int, cells: TupleCells): InvalidValue = {
    val start = out.writer.cursor
    try {
      if (kind == 't' || kind == 'b') conversion.fromCell(kind, cells, out)
      else out.setNull()
      null
    } catch {
      case invalid: InvalidValue =>
        out.writer.increaseCursor(start - out.writer.cursor)
        out.setNull()
        invalid
    }
  }

  def setNull(): Unit = out.setNull()

  /** Describes what is wrong with the value of the current cell, for an error message. */
  def describe(kind: Int, cells: TupleCells, invalid: InvalidValue): String = {
    val isText = kind == 't'
    val remedy = Option(invalid.remedy).orElse(Option.when(isText)("use STRING"))
    s"column '${field.name}', ${pgType.name} as ${field.dataType.sql}: " +
      s"${value(cells, isText)} ${invalid.problem}${remedy.fold("")("; " + _)}"
  }

  /** The first 100 characters of a value. */
  private def value(cells: TupleCells, isText: Boolean): String = {
    val text =
      if (isText) {
        val size = math.min(cells.to - cells.from, 4 * CellReader.ShownSize + 4)
        new String(cells.bytes, cells.from, size, StandardCharsets.UTF_8)
      } else {
        val shown = new TextBuffer
        shown.add("\\x")
        shown.hex(cells.bytes, cells.from, math.min(cells.to, cells.from + CellReader.ShownSize))
        shown.toString
      }
    val isCut = text.codePointCount(0, text.length) > CellReader.ShownSize
    if (isCut) s"'${text.substring(0, text.offsetByCodePoints(0, CellReader.ShownSize))}…'"
    else s"'$text'"
  }
}

private object CellReader {
  private val ShownSize = 100
}
