package io.sparkpgoutput.rows

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter

import io.sparkpgoutput.errors.{InvalidValueException, SchemaMismatchException}
import io.sparkpgoutput.protocol.TupleCells
import io.sparkpgoutput.types.{Conversion, ValueWriter}

/**
 * Reads tuples as rows. All tuples have columns of the same types. Not thread-safe.
 *
 * @param typeIds the oids of the columns' types, 0 for a type that is not known
 */
final class RowConverter(rowSchema: RowSchema, typeIds: Seq[Long]) {
  import rowSchema.{failFast, rowType, schema, types}

  private val ordinals = rowSchema.required.toArray
  private val writer = new UnsafeRowWriter(ordinals.length, RowConverter.FirstSize)
  private val readers: Array[CellReader] =
    rowSchema.conversions(typeIds).fold(
      problem => throw new SchemaMismatchException(problem),
      readersOf
    )

  private def readersOf(conversions: Seq[Conversion]): Array[CellReader] =
    ordinals.zip(conversions).zip(ValueWriter.all(writer, rowType)).map {
      case ((ordinal, conversion), out) =>
        new CellReader(schema(ordinal), types.byOid(typeIds(ordinal)), conversion, out)
    }

  /**
   * Reads a tuple. The next row overwrites this one.
   *
   * @throws SchemaMismatchException if the tuple has another number of columns than the schema
   * @throws InvalidValueException if a value does not fit its type and the mode is FAILFAST
   */
  def row(cells: TupleCells): UnsafeRow = {
    if (cells.columns != schema.length) {
      throw new SchemaMismatchException(
        s"the tuple has ${RowSchema.columns(cells.columns)}, " +
          s"the schema has ${RowSchema.columns(schema.length)}."
      )
    }
    writer.reset()
    writer.zeroOutNullBytes()
    var index = 0
    while (index < ordinals.length) {
      val kind = cells.goTo(ordinals(index))
      val invalid = readers(index).read(kind, cells)
      if (invalid != null && failFast) {
        throw new InvalidValueException(
          readers(index).describe(kind, cells, invalid) + "; try_pgoutput_row gives NULL instead."
        )
      }
      index += 1
    }
    writer.getRow
  }
}

private object RowConverter {
  private val FirstSize = 256
}
