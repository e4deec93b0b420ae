package io.sparkpgoutput.lake.fold

import java.nio.charset.StandardCharsets
import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter
import org.apache.spark.sql.types.StructType

import io.sparkpgoutput.changes.rows.{MissingColumns, RowImage}
import io.sparkpgoutput.lake.ApplyError
import io.sparkpgoutput.lake.batch.MessagePosition
import io.sparkpgoutput.rows.CellReader
import io.sparkpgoutput.types.ValueWriter

/**
 * Writes a row with the columns of the target from one image or several: a column has the value of the
 * first image that has one. Not thread-safe.
 *
 * @param rowType one of the structs of [[FoldedColumns]]
 */
final class FoldedRowWriter(format: FoldFormat, rowType: StructType) {
  private val writer = new UnsafeRowWriter(rowType.length, 512)
  private val out = ValueWriter.all(writer, rowType)
  private val images = new ImageReader(format)
  private val isWritten = new Array[Boolean](format.schema.length)
  private val readers = new Array[Array[CellReader]](format.definitions.length)

  /** The place of the flag of each column; -1 if it has none. */
  private val flags: Array[Int] = format.schema.indices.map { ordinal =>
    rowType.fieldNames.indexOf(FoldedColumns.unsent(ordinal))
  }.toArray

  def start(): Unit = {
    writer.reset()
    writer.zeroOutNullBytes()
    Arrays.fill(isWritten, false)
  }

  /** Adds the values that the images before do not have. */
  def add(image: Image): Unit = {
    val row = images.start(image)
    val columns = readersOf(image.definition)
    var column = 0
    while (column < columns.length) {
      val reader = columns(column)
      if (reader != null) {
        val ordinal = format.definitions(image.definition).ordinals(column)
        if (!isWritten(ordinal)) {
          val kind = row.goTo(column)
          if (kind != RowImage.Missing) {
            isWritten(ordinal) = true
            val invalid = reader.read(kind, row.cells)
            if (invalid != null) {
              val what = reader.describe(kind, row.cells, invalid)
              throw ApplyError.invalidValue(format.name, format.schema(ordinal).name, what)
            }
          }
        }
      }
      column += 1
    }
  }

  /**
   * Writes NULL for the columns that have no value.
   *
   * @param areUnsent true flags them
   * @return true if a column is flagged
   */
  def fill(areUnsent: Boolean): Boolean = {
    var found = false
    var ordinal = 0
    while (ordinal < isWritten.length) {
      if (!isWritten(ordinal)) out(ordinal).setNull()
      if (flags(ordinal) >= 0) {
        val isUnsent = areUnsent && !isWritten(ordinal)
        out(flags(ordinal)).write(isUnsent)
        found |= isUnsent
      }
      ordinal += 1
    }
    found
  }

  /** Adds the columns of a definition that the target has, and that have no value. */
  def addMissing(definition: Int, missing: MissingColumns): Unit = {
    val ordinals = format.definitions(definition).ordinals
    ordinals.indices.foreach { column =>
      if (ordinals(column) >= 0 && !isWritten(ordinals(column))) missing.add(column)
    }
  }

  def op(value: String): Unit =
    bytes(FoldedColumns.Op, value.getBytes(StandardCharsets.US_ASCII))

  /** Writes a string, binary or array, as a row has it. */
  def bytes(name: String, value: Array[Byte]): Unit = {
    val column = out(rowType.fieldIndex(name))
    if (value == null) column.setNull() else column.write(value, 0, value.length)
  }

  /** Writes a number, or a position in two columns, or NULL for none. */
  def number(name: String, value: Long): Unit = out(rowType.fieldIndex(name)).write(value)

  def position(names: Seq[String], value: MessagePosition): Unit =
    if (value == null) names.foreach(name => out(rowType.fieldIndex(name)).setNull())
    else {
      number(names.head, value.lsn)
      number(names(1), value.ordinal)
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
