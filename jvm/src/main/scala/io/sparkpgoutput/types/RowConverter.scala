package io.sparkpgoutput.types

import java.nio.charset.StandardCharsets

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter

import io.sparkpgoutput.protocol.{InvalidValueException, SchemaMismatchException, TupleCells}

/**
 * Reads tuples whose columns have certain types to rows. Not thread-safe.
 *
 * @param typeIds
 *   the oids of the columns' types, 0 where not known
 */
final private[sparkpgoutput] class RowConverter(rowSchema: RowSchema, typeIds: Seq[Long]) {
  import rowSchema.{failFast, options, rowType, schema}

  private val conversions: Array[Conversion] = rowSchema.conversions(typeIds) match {
    case Right(found)  => found.toArray
    case Left(problem) => throw new SchemaMismatchException(s"$problem;")
  }
  private val ordinals = rowSchema.required.toArray
  private val writer = new UnsafeRowWriter(ordinals.length, RowConverter.FirstSize)
  private val slots = Slot.all(writer, rowType)

  /**
   * The row of a tuple, in memory that the next tuple's row is written to.
   *
   * @throws SchemaMismatchException
   *   where the tuple has another number of columns
   * @throws InvalidValueException
   *   where a value does not fit, and that is an error
   */
  def row(cells: TupleCells): UnsafeRow = {
    if (cells.columns != schema.length) {
      throw new SchemaMismatchException(
        s"the tuple has ${RowSchema.columns(cells.columns)}, " +
          s"the schema has ${RowSchema.columns(schema.length)};"
      )
    }
    writer.reset()
    writer.zeroOutNullBytes()
    var index = 0
    while (index < ordinals.length) {
      val start = writer.cursor
      val kind = cells.goTo(ordinals(index))
      try write(index, kind, cells)
      catch {
        case invalid: InvalidValue =>
          if (failFast) throw failure(index, kind == 't', cells, invalid)
          writer.increaseCursor(start - writer.cursor)
          slots(index).setNull()
      }
      index += 1
    }
    writer.getRow
  }

  private def write(index: Int, kind: Int, cells: TupleCells): Unit =
    if (kind == 't') conversions(index).fromText(cells.bytes, cells.from, cells.to, slots(index))
    else if (kind == 'b') {
      conversions(index).fromBinary(cells.bytes, cells.from, cells.to, slots(index))
    } else slots(index).setNull()

  private def failure(index: Int, isText: Boolean, cells: TupleCells, invalid: InvalidValue) = {
    val ordinal = ordinals(index)
    val field = schema(ordinal)
    val pgType = options.pgType(typeIds(ordinal))
    val remedy = Option(invalid.remedy).map(text => s"; $text").mkString
    new InvalidValueException(
      s"column '${field.name}', ${pgType.name} as ${field.dataType.sql}: ${value(cells, isText)} " +
        s"${invalid.problem}$remedy; try_pgoutput_row gives NULL instead."
    )
  }

  /** The first 100 characters of a value, for the error message. */
  private def value(cells: TupleCells, isText: Boolean): String = {
    val text =
      if (isText) {
        val size = math.min(cells.to - cells.from, 4 * RowConverter.ShownSize + 4)
        new String(cells.bytes, cells.from, size, StandardCharsets.UTF_8)
      } else {
        val shown = new TextBuffer
        shown.add("\\x")
        shown.hex(cells.bytes, cells.from, math.min(cells.to, cells.from + RowConverter.ShownSize))
        shown.toString
      }
    val cut = text.codePointCount(0, text.length) > RowConverter.ShownSize
    if (cut) s"'${text.substring(0, text.offsetByCodePoints(0, RowConverter.ShownSize))}…'"
    else s"'$text'"
  }
}

private object RowConverter {
  private val FirstSize = 256
  private val ShownSize = 100
}
