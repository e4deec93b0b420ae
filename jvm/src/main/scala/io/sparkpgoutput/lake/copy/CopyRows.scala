package io.sparkpgoutput.lake.copy

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter

import io.sparkpgoutput.lake.table.MirroredTable
import io.sparkpgoutput.rows.{CellReader, RowSchema}
import io.sparkpgoutput.types.{ConversionOptions, ValueWriter}

/** Makes rows of what COPY writes, by the conversions that the changes have. Not thread-safe. */
final private class CopyRows(table: MirroredTable) {
  private val schema = table.schema
  private val line = new CopyLine(schema.length)
  private val writer = new UnsafeRowWriter(schema.length, CopyRows.FirstSize)
  private val readers: Array[CellReader] = {
    val typeIds = table.source.columns.map(_.typeId)
    val rowSchema =
      RowSchema(schema, schema.indices, ConversionOptions(), table.types, failFast = true)
    val conversions = rowSchema.conversions(typeIds).fold(
      problem => throw new IllegalStateException(problem),
      found => found
    )
    val writers = ValueWriter.all(writer, schema)
    Array.tabulate(schema.length) { index =>
      val pgType = table.types.byOid(typeIds(index))
      new CellReader(schema(index), pgType, conversions(index), writers(index))
    }
  }

  /** Reads a row of COPY. The next row overwrites it. */
  def row(text: Array[Byte]): UnsafeRow = {
    line.start(text)
    writer.reset()
    writer.zeroOutNullBytes()
    var column = 0
    while (column < readers.length) {
      val kind = line.goTo(column)
      val invalid = readers(column).read(kind, line)
      if (invalid != null) {
        val what = readers(column).describe(kind, line, invalid)
        throw CopyError.invalid(what, table.source.name, schema(column).name)
      }
      column += 1
    }
    line.finish()
    writer.getRow
  }
}

private object CopyRows {
  final private val FirstSize = 256
}
