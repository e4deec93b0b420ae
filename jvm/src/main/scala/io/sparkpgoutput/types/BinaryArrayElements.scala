package io.sparkpgoutput.types

/**
 * Binary arrays: i32 number of dimensions; i32 whether there are NULLs; oid of the element type; for
 * each dimension i32 size and i32 lower bound; for each element i32 length, -1 for NULL, and value.
 *
 * @param element
 *   the element type's oid; 0 where it is not known
 * @see
 *   `array_send`
 */
final private[types] class BinaryArrayElements(typeName: String, element: Long)
    extends ArrayElements {
  private val reader = new BinaryReader(typeName)

  override def start(bytes: Array[Byte], from: Int, to: Int): Unit = {
    reader.start(bytes, from, to)
    this.bytes = bytes
    dimensions = reader.int32()
    if (dimensions < 0 || dimensions > ArrayElements.MostDimensions) {
      throw InvalidValue.malformed(typeName)
    }
    reader.int32()
    val sent = reader.uint32()
    if (element != 0 && sent != element) {
      throw new InvalidValue(s"has elements of the type with oid $sent, $typeName has $element")
    }
    readSizes()
  }

  private def readSizes(): Unit = {
    var elements = if (dimensions == 0) 0L else 1L
    var dimension = 0
    while (dimension < dimensions) {
      sizes(dimension) = reader.int32()
      lowerBounds(dimension) = reader.int32()
      if (sizes(dimension) <= 0) throw InvalidValue.malformed(typeName)
      elements *= sizes(dimension)
      // Each element has its length at least: the number can be trusted only if they are there.
      if (elements * 4 > reader.left + 8L * (dimensions - dimension)) {
        throw InvalidValue.malformed(typeName)
      }
      dimension += 1
    }
    if (elements * 4 > reader.left) throw InvalidValue.malformed(typeName)
    if (elements == 0) reader.finish()
  }

  override def next(): Boolean = {
    val size = reader.int32()
    if (size == -1) false
    else {
      from = reader.take(size)
      to = from + size
      true
    }
  }

  override def convert(conversion: Conversion, out: Slot): Unit =
    conversion.fromBinary(bytes, from, to, out)
}
