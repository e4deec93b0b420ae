package io.sparkpgoutput.types

/**
 * Arrays in text: `{1,NULL,"a \"b\""}`, several dimensions as `{{1,2},{3,4}}`, with lower bounds, which
 * are dropped, as `[0:2]={7,8,9}`.
 *
 * @see
 *   `array_out`; PostgreSQL documentation, "Array Input and Output Syntax"
 */
final private[types] class TextArrayElements(typeName: String, delimiter: Char)
    extends ArrayElements {
  private val unescaped = new TextBuffer
  private var text: Array[Byte] = Array.emptyByteArray
  private var at = 0
  private var end = 0

  /** Whether the element between quotes that was found last has a backslash. */
  private var escaped = false

  override def start(bytes: Array[Byte], from: Int, to: Int): Unit = {
    text = bytes
    at = from
    end = to
    skipBounds()
    val elements = at
    measure()
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

  override def convert(conversion: Conversion, out: Slot): Unit =
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
      if (text(index) == '"' || text(index) == '{' || text(index) == '\\') throw malformed
      index += 1
    }
    if (index == at || index == end) throw malformed
    index
  }

  private def ends(byte: Byte) = byte == delimiter || byte == '}'

  /** The lower and upper bounds of each dimension, such as `[0:2][-1:1]=`. */
  private def skipBounds(): Unit = if (at < end && text(at) == '[') {
    while (at < end && text(at) != '=') {
      val byte = text(at)
      if (!(byte >= '0' && byte <= '9') && "[]:-+".indexOf(byte.toInt) < 0) throw malformed
      at += 1
    }
    at += 1
  }

  /** Goes through the whole text once: how many dimensions there are, and of which sizes. */
  private def measure(): Unit = {
    dimensions = depthOfFirst()
    java.util.Arrays.fill(sizes, -1)
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
