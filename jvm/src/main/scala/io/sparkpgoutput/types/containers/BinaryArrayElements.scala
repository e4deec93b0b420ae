package io.sparkpgoutput.types.containers

import io.sparkpgoutput.types.{BinaryReader, Conversion, InvalidValue, ValueWriter}

/**
 * Binary arrays: i32 number of dimensions; i32 whether there are NULLs; oid of the element type;
 * for each dimension i32 size and i32 lower bound; for each element i32 length, -1 for NULL, and
 * value.
 *
 * @param element
 *   the element type's oid; 0 where it is not known
 * @see
 *   `array_send`
 */
final class BinaryArrayElements(typeName: String, element: Long)
    extends ArrayElements {
  private val reader = new BinaryReader(typeName)

  /** The elements that `next` has not gone to. */
  private var left = 0L

  override def start(bytes: Array[Byte], from: Int, to: Int): Unit = {
    reader.start(bytes, from, to)
    this.bytes = bytes
    dimensions = reader.int32()
    if (dimensions < 0 || dimensions > ArrayElements.MostDimensions) throw malformed
    val hasNulls = reader.int32()
    if (hasNulls != 0 && hasNulls != 1) throw malformed
    val sent = reader.uint32()
    if (element != 0 && sent != element) {
      throw new InvalidValue(s"has elements of the type with oid $sent, $typeName has $element")
    }
    readSizes()
  }

  private def readSizes(): Unit = {
    left = if (dimensions == 0) 0 else 1
    var dimension = 0
    while (dimension < dimensions) {
      sizes(dimension) = reader.int32()
      lowerBounds(dimension) = reader.int32()
      if (sizes(dimension) <= 0) throw malformed
      left *= sizes(dimension)
      // Each element has its length at least. Checked each time, the product cannot overflow.
      if (left * 4 > reader.left) throw malformed
      dimension += 1
    }
    if (left == 0) reader.finish()
  }

  override def next(): Boolean = {
    val size = reader.int32()
    if (size != -1) {
      from = reader.take(size)
      to = from + size
    }
    left -= 1
    if (left == 0) reader.finish()
    size != -1
  }

  override def convert(conversion: Conversion, out: ValueWriter): Unit =
    conversion.fromBinary(bytes, from, to, out)

  private def malformed = InvalidValue.malformed(typeName)
}
