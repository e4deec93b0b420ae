package io.sparkpgoutput.types

/** Reads values as STRING. It copies text, and prints binary values as the server does. */
final class StringConversion(printer: Printer) extends Conversion {
  private val text = new TextBuffer

  override def fromText(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit =
    out.write(bytes, from, to - from)

  override def fromBinary(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit = {
    text.clear()
    printer.print(bytes, from, to, text)
    out.write(text.bytes, 0, text.size)
  }
}
