package io.sparkpgoutput.rows

import java.nio.charset.StandardCharsets

import org.apache.spark.sql.types.StructField

import io.sparkpgoutput.protocol.TupleCells
import io.sparkpgoutput.types.{Conversion, InvalidValue, PgType, TextBuffer, ValueWriter}

/** Reads the cells of one column to a member of rows. Not thread-safe. */
final class CellReader(
    field: StructField,
    pgType: PgType,
    conversion: Conversion,
    slot: ValueWriter
) {

  /**
   * Reads the cell that was gone to, NULL for one without a value. What is wrong with the value,
   * where it does not fit; then NULL was written.
   *
   * @param kind
   *   the cell's
   */
  def read(kind: Int, cells: TupleCells): InvalidValue = {
    val start = slot.writer.cursor
    try {
      if (kind == 't' || kind == 'b') conversion.fromCell(kind, cells, slot)
      else slot.setNull()
      null
    } catch {
      case invalid: InvalidValue =>
        slot.writer.increaseCursor(start - slot.writer.cursor)
        slot.setNull()
        invalid
    }
  }

  def setNull(): Unit = slot.setNull()

  /** What is wrong with the value of the cell that was read, for the error message. */
  def describe(kind: Int, cells: TupleCells, invalid: InvalidValue): String = {
    val remedy = Option(invalid.remedy).map(text => s"; $text").mkString
    s"column '${field.name}', ${pgType.name} as ${field.dataType.sql}: " +
      s"${value(cells, isText = kind == 't')} ${invalid.problem}$remedy"
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
    val cut = text.codePointCount(0, text.length) > CellReader.ShownSize
    if (cut) s"'${text.substring(0, text.offsetByCodePoints(0, CellReader.ShownSize))}…'"
    else s"'$text'"
  }
}

private object CellReader {
  private val ShownSize = 100
}
