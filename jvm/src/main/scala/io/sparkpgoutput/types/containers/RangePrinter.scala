package io.sparkpgoutput.types.containers

import io.sparkpgoutput.types.{BinaryReader, Printer, TextBuffer}

import RangeFlags._

/** Prints ranges as `range_out` does. */
final class RangePrinter(typeName: String, bound: Printer) extends Printer {
  private val reader = new BinaryReader(typeName)
  private val text = new TextBuffer

  override def print(bytes: Array[Byte], from: Int, to: Int, out: TextBuffer): Unit = {
    reader.start(bytes, from, to)
    val flags = RangeFlags.read(typeName, reader)
    if ((flags & EmptyFlag) != 0) out.add("empty")
    else {
      out.add(if ((flags & LowerInclusiveFlag) != 0) '[' else '(')
      if ((flags & NoLowerFlag) == 0) printBound(out)
      out.add(',')
      if ((flags & NoUpperFlag) == 0) printBound(out)
      out.add(if ((flags & UpperInclusiveFlag) != 0) ']' else ')')
    }
    reader.finish()
  }

  private def printBound(out: TextBuffer): Unit = {
    val at = reader.take(reader.int32())
    text.clear()
    bound.print(reader.bytes, at, reader.position, text)
    TextField.print(text, "\"\\()[],", out)
  }
}
