package io.sparkpgoutput.changes.rows

import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter

import io.sparkpgoutput.types.ValueWriter

/**
 * Writes the columns of a table, as one Relation message describes it. This class itself writes none,
 * and only finds out which columns are missing. Not thread-safe.
 */
class TableWriter(relation: Relation) {
  final val isKey: Array[Boolean] = relation.columns.map(_.isKey).toArray

  /** The columns whose values the last image does not carry. */
  final val missing = new MissingColumns(relation)

  /**
   * Writes the columns of one image of a row.
   *
   * @param position the position of the message, for errors
   */
  final def write(tuple: RowImage, position: Long): Unit = {
    missing.clear()
    begin()
    var column = 0
    while (column < isKey.length) {
      val kind = tuple.goTo(column)
      if (kind == RowImage.Missing) {
        missing.add(column)
        writeMissing(column)
      } else write(column, kind, tuple, position)
      column += 1
    }
    end(position)
  }

  /** Writes NULL for all columns. */
  def writeNulls(): Unit = ()

  protected def begin(): Unit = ()
  protected def write(column: Int, kind: Int, tuple: RowImage, position: Long): Unit = ()
  protected def writeMissing(column: Int): Unit = ()
  protected def end(position: Long): Unit = ()
}

object TableWriter {
  def of(
      relation: Relation,
      format: ChangeFormat,
      writer: UnsafeRowWriter,
      position: Long
  ): TableWriter = {
    val writers = ValueWriter.all(writer, format.rowType).take(format.requiredColumns.length)
    format.table match {
      case columns: TableFormat.Columns =>
        new ColumnsWriter(relation, format, columns, writers, position)
      case _ if writers.isEmpty  => new TableWriter(relation)
      case TableFormat.AsMap     => new MapWriter(relation, format, writers.head)
      case TableFormat.AsVariant => new VariantWriter(relation, format, writers.head)
    }
  }
}
