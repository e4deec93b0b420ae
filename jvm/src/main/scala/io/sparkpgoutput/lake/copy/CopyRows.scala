package io.sparkpgoutput.lake.copy

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter

import io.sparkpgoutput.lake.table.MirroredTable
import io.sparkpgoutput.rows.CellReader
import io.sparkpgoutput.types.{ConversionOptions, ValueWriter}

/** Makes rows of what COPY writes, by the conversions that the changes have. Not thread-safe. */
final private class CopyRows(table: MirroredTable, options: ConversionOptions) {
  private val schema = table.schema
  private val line = new CopyLine(schema.length)
  private val writer = new UnsafeRowWriter(schema.length, CopyRows.FirstSize)
  private val readers: Array[CellReader] = {
    val writers = ValueWriter.all(writer, schema)
    Array.tabulate(schema.length) { index =>
      val field = schema(index)
      val pgType = table.types.byOid(table.source.columns(index).typeId)
      val isKey = table.source.key.contains(field.name)
      val conversion = pgType.to(field.dataType, if (isKey) options.ofKey else options)
      new CellReader(field, pgType, conversion.get, writers(index))
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
