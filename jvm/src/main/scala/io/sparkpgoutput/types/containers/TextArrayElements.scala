package io.sparkpgoutput.types.containers

import java.util.Arrays

import io.sparkpgoutput.types.numbers.PgInteger
import io.sparkpgoutput.types.{Ascii, Conversion, InvalidValue, TextBuffer, ValueWriter}

/**
 * Arrays in text: `{1,NULL,"a \"b\""}`, several dimensions as `{{1,2},{3,4}}`, with lower bounds
 * other than 1 as `[0:2]={7,8,9}`.
 *
 * @see
 *   `array_out`; PostgreSQL documentation, "Array Input and Output Syntax"
 */
final class TextArrayElements(typeName: String, delimiter: Char)
    extends ArrayElements {
  private val unescaped = new TextBuffer
  private var text: Array[Byte] = Array.emptyByteArray
  private var at = 0
  private var end = 0

  /** Whether the element between quotes that was found last has a backslash. */
  private var escaped = false

  /** The number of the last element of each dimension, where the text begins with bounds. */
  private val upperBounds = new Array[Int](ArrayElements.MostDimensions)

  override def start(bytes: Array[Byte], from: Int, to: Int): Unit = {
    text = bytes
    at = from
    end = to
    val bounds = readBounds()
    val elements = at
    measure()
    if (bounds > 0) checkBounds(bounds)
    at = elements
  }

  override def next(): Boolean = {
    while (text(at) == '{' || text(at) == '}' || text(at) == delimiter) at += 1
    if (text(at) == '"') quoted()
    else {
      bytes = text
      from = at
      at = endOfUnquoted()
      to = at
      !Ascii.equalIgnoreCase(text, from, to, "null")
    }
  }

  override def convert(conversion: Conversion, out: ValueWriter): Unit =
    conversion.fromText(bytes, from, to, out)

  /** What stands between quotes; a backslash makes the next character an ordinary one. */
  private def quoted(): Boolean = {
    bytes = text
    from = at + 1
    at = endOfQuoted()
    to = at - 1
    if (escaped) {
      unescaped.clear()
      var index = from
      while (index < to) {
        if (text(index) == '\\') index += 1
        unescaped.add(text(index).toInt)
        index += 1
      }
      bytes = unescaped.bytes
      from = 0
      to = unescaped.size
    }
    true
  }

  /** The position after the quote that ends what begins with one here. */
  private def endOfQuoted(): Int = {
    var index = at + 1
    escaped = false
    while (index < end && text(index) != '"') {
      if (text(index) == '\\') { escaped = true; index += 1 }
      index += 1
    }
    if (index >= end) throw malformed
    index + 1
  }

  private def endOfUnquoted(): Int = {
    var index = at
    while (index < end && !ends(text(index))) {
      if (needsQuotes(text(index))) throw malformed
      index += 1
    }
    if (index == at || index == end) throw malformed
    index
  }

  private def ends(byte: Byte) = byte == delimiter || byte == '}'

  /** White space too: around an element it would not be part of it. */
  private def needsQuotes(byte: Byte) =
    byte == '"' || byte == '\\' || byte == '{' || Ascii.isSpace(byte)

  /** The bounds of each dimension, such as `[0:2][-1:1]=`; returns of how many there are any. */
  private def readBounds(): Int = {
    var dimension = 0
    while (at < end && text(at) == '[') {
      if (dimension == ArrayElements.MostDimensions) throw malformed
      lowerBounds(dimension) = readBound(':')
      upperBounds(dimension) = readBound(']')
      at += 1
      dimension += 1
    }
    if (dimension > 0) expect('=')
    dimension
  }

  /** The number after this position, up to a character, where the position is then. */
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
    if (bounds != dimensions) throw malformed
    var dimension = 0
    while (dimension < dimensions) {
      val size = upperBounds(dimension).toLong - lowerBounds(dimension) + 1
      if (size != sizes(dimension)) throw malformed
      dimension += 1
    }
  }

  /** Goes through the whole text once: how many dimensions there are, and of which sizes. */
  private def measure(): Unit = {
    dimensions = depthOfFirst()
    Arrays.fill(sizes, -1)
    if (dimensions > 0) measure(0)
    if (at != end) throw malformed
  }

  /** The braces before the first element; 0 for `{}`, after which it stands then. */
  private def depthOfFirst(): Int = {
    var depth = 0
    while (at + depth < end && text(at + depth) == '{') depth += 1
    if (depth == 0 || at + depth >= end) throw malformed
    if (depth > ArrayElements.MostDimensions) throw malformed
    if (text(at + depth) == '}') {
      if (depth > 1) throw malformed
      at += 2
      0
    } else depth
  }

  /** The braces that begin here: elements of a dimension, each in braces but for the last one's. */
  private def measure(dimension: Int): Unit = {
    expect('{')
    var count = 0
    do {
      if (count > 0) at += 1 // the delimiter
      if (dimension + 1 < dimensions) measure(dimension + 1)
      else at = if (at < end && text(at) == '"') endOfQuoted() else endOfUnquoted()
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

  private def malformed = InvalidValue.malformed(typeName)
}
