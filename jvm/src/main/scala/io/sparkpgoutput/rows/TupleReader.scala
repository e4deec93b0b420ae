package io.sparkpgoutput.rows

import scala.collection.immutable.ArraySeq
import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.util.ArrayData

import io.sparkpgoutput.protocol.{DecodedTuple, EncodedTuple}

/**
 * Reads tuples to rows, each with the types of its columns, which may be others in each row. The
 * conversions are chosen once for all the tuples that have the same types. Not thread-safe.
 */
final class TupleReader(rowSchema: RowSchema) {
  private val structCells = new DecodedTuple
  private val messageCells = new EncodedTuple
  private val converters = mutable.HashMap.empty[Seq[Long], RowConverter]
  private lazy val untyped = new RowConverter(rowSchema, rowSchema.unknown)

  /** The oids that came last, and what reads tuples that have them; null where there were none. */
  private var lastIds: Array[Long] = _
  private var last: RowConverter = _

  /**
   * The row of a tuple, in memory that the next tuple's row is written to.
   *
   * @param typeIds
   *   the oids of the columns' types; null, or NULL elements, where not known
   */
  def read(tuple: InternalRow, typeIds: ArrayData): UnsafeRow = {
    structCells.start(tuple)
    converter(typeIds).row(structCells)
  }

  /** The same of a tuple as it stood in its message. */
  def read(tuple: Array[Byte], typeIds: ArrayData): UnsafeRow = {
    messageCells.start(tuple)
    converter(typeIds).row(messageCells)
  }

  private def converter(typeIds: ArrayData): RowConverter =
    if (typeIds == null) untyped
    else {
      if (last == null || !isLast(typeIds)) {
        val ids = TupleReader.oids(typeIds)
        if (converters.size >= TupleReader.MostConverters) converters.clear()
        // There may be none: then what came last is still the last.
        last = converters
          .getOrElseUpdate(ArraySeq.unsafeWrapArray(ids), new RowConverter(rowSchema, ids.toSeq))
        lastIds = ids
      }
      last
    }

  private def isLast(typeIds: ArrayData): Boolean = {
    val count = typeIds.numElements()
    var index = 0
    while (
      index < count && count == lastIds.length &&
      TupleReader.oid(typeIds, index) == lastIds(index)
    ) index += 1
    index == count && count == lastIds.length
  }
}

object TupleReader {

  /** More kinds of tables than these are not remembered. */
  private val MostConverters = 1000

  /** The oids, 0 for NULL. */
  def oids(typeIds: ArrayData): Array[Long] =
    Array.tabulate(typeIds.numElements())(oid(typeIds, _))

  private def oid(typeIds: ArrayData, index: Int): Long =
    if (typeIds.isNullAt(index)) 0L else typeIds.getLong(index)
}
