package io.sparkpgoutput.types.containers

import io.sparkpgoutput.types.{Conversion, ValueWriter}

/** Reads arrays, whose elements are gone through alike in text and binary. */
abstract class ArrayElementsConversion(text: ArrayElements, binary: ArrayElements)
    extends Conversion {

  /** Writes the array that the elements are at the beginning of. */
  protected def write(elements: ArrayElements, out: ValueWriter): Unit

  final override def fromText(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit = {
    text.start(bytes, from, to)
    write(text, out)
  }

  final override def fromBinary(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit = {
    binary.start(bytes, from, to)
    write(binary, out)
  }
}
