package io.sparkpgoutput.types.containers

import java.util.Arrays

import io.sparkpgoutput.types._
import io.sparkpgoutput.types.numbers.PgInteger

/**
 * Reads the elements of an array, one after the other. An instance reads one array after another.
 */
abstract class ArrayElements(typeName: String) {

  /** `MAXDIM` */
  final protected val MostDimensions = 6

  /** The number of dimensions. An empty array has 0. */
  var dimensions = 0

  /** The number of elements of each dimension. That of the first dimension is 0 in an empty array. */
  val sizes: Array[Int] = new Array[Int](MostDimensions)

  /** The index of the first element of each dimension. It is 1 in a text that does not begin with bounds. */
  val lowerBounds: Array[Int] = new Array[Int](MostDimensions)

  /** Returns whether the elements of a dimension begin with another index than 1. */
  final def hasOtherBounds: Boolean = {
    var dimension = 0
    while (dimension < dimensions && lowerBounds(dimension) == 1) dimension += 1
    dimension < dimensions
  }

  /** Starts to read an array and finds its dimensions. An array never has more elements than bytes. */
  def start(bytes: Array[Byte], from: Int, to: Int): Unit

  /**
   * Goes to the next element and returns false if it is NULL. Call this once for each element of the
   * dimensions. The last call checks that the array ends there.
   */
  def next(): Boolean

  /** Reads the current element. */
  def convert(conversion: Conversion, out: ValueWriter): Unit

  final protected def malformed: InvalidValue = InvalidValue.malformed(typeName)
}

/**
 * Reads the elements of an array's text: `{1,NULL,"a \"b\""}`, with several dimensions
 * `{{1,2},{3,4}}`, with other lower bounds than 1 `[0:2]={7,8,9}`.
 *
 * @see `array_out`; PostgreSQL documentation, "Array Input and Output Syntax"
 */
final class TextArrayElements(typeName: String, delimiter: Char)
    extends ArrayElements(typeName) {
  private val part =
    new TextPart(typeName, s"$delimiter}", special = s"{${Ascii.Spaces}", doubled = false)
  private var text: Array[Byte] = Array.emptyByteArray
  private var at = 0
  private var end = 0

  /** The index of the last element of each dimension, if the text begins with bounds. */
  private val upperBounds = new Array[Int](MostDimensions)

  override def start(bytes: Array[Byte], from: Int, to: Int): Unit = {
    text = bytes
    at = from
    end = to
    val bounds = readBounds()
    val elements = at
    // The whole text is read once to find the dimensions and their sizes.
    dimensions = depthOfFirst()
    Arrays.fill(sizes, -1)
    if (dimensions > 0) measure(0) else sizes(0) = 0
    if (at != end) throw malformed
    if (bounds > 0) checkBounds(bounds)
    at = elements
  }

  override def next(): Boolean = {
    while (text(at) == '{' || text(at) == '}' || text(at) == delimiter) at += 1
    at = part.read(text, at, end)
    !part.isNull
  }

  override def convert(conversion: Conversion, out: ValueWriter): Unit =
    part.write(conversion, out)

  /** Reads bounds such as `[0:2][-1:1]=` and returns the number of dimensions that have bounds. */
  private def readBounds(): Int = {
    Arrays.fill(lowerBounds, 1)
    var dimension = 0
    while (at < end && text(at) == '[') {
      if (dimension == MostDimensions) throw malformed
      lowerBounds(dimension) = readBound(':')
      upperBounds(dimension) = readBound(']')
      at += 1
      dimension += 1
    }
    if (dimension > 0) expect('=')
    dimension
  }

  /** Reads the number between this character and the next `last`, and goes there. */
  private def readBound(last: Char): Int = {
    val from = at + 1
    at = from
    while (at < end && text(at) != last) at += 1
    if (at == end) throw malformed
    val bound = PgInteger.parse(typeName, text, from, at)
    if (bound != bound.toInt) throw malformed
    bound.toInt
  }

  private def checkBounds(bounds: Int): Unit = {
    val fit = bounds == dimensions && (0 until dimensions).forall { dimension =>
      upperBounds(dimension).toLong - lowerBounds(dimension) + 1 == sizes(dimension)
    }
    if (!fit) throw malformed
  }

  /** Counts the braces before the first element. The result is 0 for `{}`, which this skips. */
  private def depthOfFirst(): Int = {
    var depth = 0
    while (at + depth < end && text(at + depth) == '{') depth += 1
    if (depth == 0 || depth > MostDimensions || at + depth >= end) throw malformed
    if (text(at + depth) == '}') {
      if (depth > 1) throw malformed
      at += 2
      0
    } else depth
  }

  /** Measures the dimension whose brace is here, and the dimensions in it. */
  private def measure(dimension: Int): Unit = {
    expect('{')
    var count = 0
    do {
      if (count > 0) at += 1 // the delimiter
      if (dimension + 1 < dimensions) measure(dimension + 1)
      else {
        at = part.find(text, at, end)
        if (part.isMissing) throw malformed
      }
      count += 1
    } while (at < end && text(at) == delimiter)
    expect('}')
    if (sizes(dimension) >= 0 && sizes(dimension) != count) throw malformed
    sizes(dimension) = count
  }

  private def expect(character: Char): Unit = {
    if (at >= end || text(at) != character) throw malformed
    at += 1
  }
}

/**
 * Reads the elements of binary arrays: int32 number of dimensions; int32 whether there are NULLs; oid
 * of the element type; for each dimension int32 size and int32 lower bound; for each element int32
 * length, which is -1 for NULL, and value.
 *
 * @param element the oid of the element type, or 0 if it is not known
 * @see `array_send`
 */
final class BinaryArrayElements(typeName: String, element: Long)
    extends ArrayElements(typeName) {
  private val reader = new BinaryReader(typeName)

  /** The number of elements that are still to be read. */
  private var left = 0L

  /** The current element begins here and ends at the reader's position. */
  private var from = 0

  override def start(bytes: Array[Byte], from: Int, to: Int): Unit = {
    reader.start(bytes, from, to)
    dimensions = reader.int32()
    if (dimensions < 0 || dimensions > MostDimensions) throw malformed
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
    sizes(0) = 0
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
    from = reader.part()
    left -= 1
    if (left == 0) reader.finish()
    from != -1
  }

  override def convert(conversion: Conversion, out: ValueWriter): Unit =
    conversion.fromBinary(reader.bytes, from, reader.position, out)

  /** Prints the current element. */
  def print(printer: Printer, out: TextBuffer): Unit =
    printer.print(reader.bytes, from, reader.position, out)
}
