package io.sparkpgoutput.rows

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter

import io.sparkpgoutput.errors.{InvalidValueException, SchemaMismatchException}
import io.sparkpgoutput.protocol.TupleCells
import io.sparkpgoutput.types.ValueWriter

/**
 * Reads tuples whose columns have certain types to rows. Not thread-safe.
 *
 * @param typeIds
 *   the oids of the columns' types, 0 where not known
 */
final class RowConverter(rowSchema: RowSchema, typeIds: Seq[Long]) {
  import rowSchema.{failFast, rowType, schema, types}

  private val ordinals = rowSchema.required.toArray
  private val writer = new UnsafeRowWriter(ordinals.length, RowConverter.FirstSize)
  private val readers: Array[CellReader] = rowSchema.conversions(typeIds) match {
    case Left(problem) => throw new SchemaMismatchException(s"$problem.")
    case Right(conversions) =>
      conversions.zip(ordinals).zip(ValueWriter.all(writer, rowType)).toArray.map {
        case ((conversion, ordinal), slot) =>
          new CellReader(schema(ordinal), types.byOid(typeIds(ordinal)), conversion, slot)
      }
  }

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
