package io.sparkpgoutput.types.containers

import org.apache.spark.sql.catalyst.expressions.codegen.{UnsafeArrayWriter, UnsafeWriter}
import org.apache.spark.sql.types.{ArrayType, DataType}

import io.sparkpgoutput.types.{Conversion, InvalidValue, ValueWriter}

/**
 * Reads arrays as ARRAY, nested once for each dimension.
 *
 * @param isOfKey whether arrays that differ only in their lower bounds must not become equal
 */
final class ArrayConversion(
    target: ArrayType,
    text: ArrayElements,
    binary: ArrayElements,
    element: Conversion,
    isOfKey: Boolean
) extends ArrayElementsConversion(text, binary) {

  /** The element types of the nested arrays, from the outermost to the innermost. */
  private val elementTypes: Array[DataType] = List.unfold[DataType, DataType](target) {
    case array: ArrayType => Some((array.elementType, array.elementType))
    case _                => None
  }.toArray
  private val depth = elementTypes.length
  private val writers = new Array[UnsafeArrayWriter](depth)
  private var slot: ValueWriter = _
  private var parent: UnsafeWriter = _

  override protected def write(elements: ArrayElements, out: ValueWriter): Unit = {
    if (elements.dimensions > 0 && elements.dimensions != depth) throw otherDepth(elements)
    if (isOfKey && elements.lowerBounds.take(elements.dimensions).exists(_ != 1))
      throw new InvalidValue("is a part of a key and does not begin with the index 1", "use STRING")
    if (out.writer ne parent) prepare(out.writer)
    val start = parent.cursor
    if (elements.dimensions == 0) writers(0).initialize(0) else writeDimension(0, elements)
    parent.setOffsetAndSizeFromPreviousCursor(out.ordinal, start)
  }

  private def prepare(parent: UnsafeWriter): Unit = {
    this.parent = parent
    elementTypes.indices.foreach { dimension =>
      writers(dimension) =
        new UnsafeArrayWriter(parent, ValueWriter.elementSize(elementTypes(dimension)))
    }
    slot = new ValueWriter(writers(depth - 1), elementTypes(depth - 1), 0)
  }

  private def writeDimension(dimension: Int, elements: ArrayElements): Unit = {
    val writer = writers(dimension)
    val size = elements.sizes(dimension)
    writer.initialize(size)
    var index = 0
    while (index < size) {
      if (dimension == depth - 1) {
        slot.ordinal = index
        if (elements.next()) elements.convert(element, slot) else slot.setNull()
      } else {
        val start = writer.cursor
        writeDimension(dimension + 1, elements)
        writer.setOffsetAndSizeFromPreviousCursor(index, start)
      }
      index += 1
    }
  }

  private def otherDepth(elements: ArrayElements) = {
    val leaf: DataType = elementTypes(depth - 1)
    val fitting = (1 to elements.dimensions).foldLeft(leaf)((inner, _) => ArrayType(inner))
    new InvalidValue(
      s"has ${elements.dimensions} dimensions, ${target.sql} takes $depth",
      s"use ${fitting.sql}"
    )
  }
}
