package io.sparkpgoutput.rows

import scala.collection.immutable.ArraySeq
import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.util.ArrayData

import io.sparkpgoutput.protocol.{DecodedTuple, EncodedTuple}

/**
 * Reads tuples as rows. Each tuple comes with the types of its columns. Tuples with the same types
 * share a [[RowConverter]]. Not thread-safe.
 */
final class TupleReader(rowSchema: RowSchema) {
  private val structCells = new DecodedTuple
  private val messageCells = new EncodedTuple
  private val converters = mutable.HashMap.empty[Seq[Long], RowConverter]
  private lazy val untyped = new RowConverter(rowSchema, rowSchema.unknown)

  /** The oids that came last, and the converter of tuples with these. Null before the first. */
  private var lastIds: Array[Long] = _
  private var last: RowConverter = _

  /**
   * Reads a tuple. The next row overwrites this one.
   *
   * @param typeIds
   *   the oids of the columns' types. Null, or NULL elements, stand for types that are not known.
   */
  def read(tuple: InternalRow, typeIds: ArrayData): UnsafeRow = {
    structCells.start(tuple)
    converter(typeIds).row(structCells)
  }

  /** Reads a tuple from its bytes in the message. */
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
        // If there is no converter, this throws, and the last one stays.
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

  /** The most converters that are kept. */
  private val MostConverters = 1000

  /** Returns the oids, with 0 for NULL. */
  def oids(typeIds: ArrayData): Array[Long] =
    Array.tabulate(typeIds.numElements())(oid(typeIds, _))

  private def oid(typeIds: ArrayData, index: Int): Long =
    if (typeIds.isNullAt(index)) 0L else typeIds.getLong(index)
}
