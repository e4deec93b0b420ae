package io.sparkpgoutput.types.containers

import io.sparkpgoutput.types.{Ascii, Printer, TextBuffer}

/** Prints arrays as `array_out` does. */
final class ArrayPrinter(
    delimiter: Char,
    elements: ArrayElements,
    element: Printer
) extends Printer {
  private val text = new TextBuffer

  override def print(bytes: Array[Byte], from: Int, to: Int, out: TextBuffer): Unit = {
    elements.start(bytes, from, to)
    if (elements.dimensions == 0) out.add("{}")
    else {
      if (hasOtherBounds) printBounds(out)
      printDimension(0, out)
    }
  }

  /** Tells whether the elements of a dimension begin with another index than 1. */
  private def hasOtherBounds: Boolean = {
    var dimension = 0
    while (dimension < elements.dimensions && elements.lowerBounds(dimension) == 1) dimension += 1
    dimension < elements.dimensions
  }

  private def printBounds(out: TextBuffer): Unit = {
    var dimension = 0
    while (dimension < elements.dimensions) {
      val first = elements.lowerBounds(dimension).toLong
      out.add('[')
      out.number(first)
      out.add(':')
      out.number(first + elements.sizes(dimension) - 1)
      out.add(']')
      dimension += 1
    }
    out.add('=')
  }

  private def printDimension(dimension: Int, out: TextBuffer): Unit = {
    out.add('{')
    var index = 0
    while (index < elements.sizes(dimension)) {
      if (index > 0) out.add(delimiter)
      if (dimension + 1 < elements.dimensions) printDimension(dimension + 1, out)
      else if (elements.next()) printElement(out)
      else out.add("NULL")
      index += 1
    }
    out.add('}')
  }

  private def printElement(out: TextBuffer): Unit = {
    text.clear()
    element.print(elements.bytes, elements.from, elements.to, text)
    if (needsQuotes) out.quoted(text.bytes, 0, text.size, quote = '"', escape = '\\')
    else out.add(text.bytes, 0, text.size)
  }

  /** Tells whether the text is empty, is NULL or has a special character. */
  private def needsQuotes: Boolean = {
    val bytes = text.bytes
    var index = 0
    while (index < text.size && !isSpecial(bytes(index))) index += 1
    index < text.size || text.size == 0 || Ascii.equalIgnoreCase(bytes, 0, text.size, "null")
  }

  private def isSpecial(byte: Byte): Boolean =
    byte == '"' || byte == '\\' || byte == '{' || byte == '}' || byte == delimiter ||
      Ascii.isSpace(byte)
}
