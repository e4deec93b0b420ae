package io.sparkpgoutput.types.containers

import io.sparkpgoutput.types.{BinaryReader, Conversion, InvalidValue, ValueWriter}

/**
 * Reads the elements of binary arrays: int32 number of dimensions; int32 whether there are NULLs; oid
 * of the element type; for each dimension int32 size and int32 lower bound; for each element int32
 * length, which is -1 for NULL, and value.
 *
 * @param element the oid of the element type, or 0 if it is not known
 * @see `array_send`
 */
final class BinaryArrayElements(typeName: String, element: Long) extends ArrayElements {
  private val reader = new BinaryReader(typeName)

  /** The number of elements that are still to be read. */
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
      // Each element has at least its length. Because of this check, the product cannot overflow.
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
