package io.sparkpgoutput.types

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.util.ArrayData

import io.sparkpgoutput.protocol.{StructCells, TupleCells}

/**
 * Reads tuples to rows, each with the types of its columns, which may be others in each row. The
 * conversions are chosen once for all the tuples that have the same types. Not thread-safe.
 */
final private[sparkpgoutput] class TupleReader(rowSchema: RowSchema) {
  private val cells = new StructCells
  private val converters = mutable.HashMap.empty[Seq[Long], RowConverter]
  private lazy val untyped = new RowConverter(rowSchema, rowSchema.unknown)
  private var lastIds: Seq[Long] = _
  private var last: RowConverter = _

  /**
   * The row of a tuple, in memory that the next tuple's row is written to.
   *
   * @param typeIds
   *   the oids of the columns' types; null, or NULL elements, where not known
   */
  def read(tuple: InternalRow, typeIds: ArrayData): UnsafeRow = {
    cells.start(tuple)
    converter(typeIds).row(cells)
  }

  /** The same, of cells from elsewhere. */
  def read(cells: TupleCells, typeIds: ArrayData): UnsafeRow = converter(typeIds).row(cells)

  private def converter(typeIds: ArrayData): RowConverter =
    if (typeIds == null) untyped
    else if (lastIds != null && isLast(typeIds)) last
    else {
      lastIds = TupleReader.oids(typeIds)
      if (converters.size >= TupleReader.MostConverters) converters.clear()
      last = converters.getOrElseUpdate(lastIds, new RowConverter(rowSchema, lastIds))
      last
    }

  private def isLast(typeIds: ArrayData): Boolean = {
    val count = typeIds.numElements()
    var index = 0
    while (
      index < count && count == lastIds.length &&
      (if (typeIds.isNullAt(index)) 0L else typeIds.getLong(index)) == lastIds(index)
    ) index += 1
    index == count && count == lastIds.length
  }
}

private[sparkpgoutput] object TupleReader {

  /** More kinds of tables than these are not remembered. */
  private val MostConverters = 1000

  /** The oids, 0 for NULL. */
  def oids(typeIds: ArrayData): Seq[Long] = Array
    .tabulate(typeIds.numElements()) { index =>
      if (typeIds.isNullAt(index)) 0L else typeIds.getLong(index)
    }
    .toSeq
}
