package io.sparkpgoutput.types.containers

import io.sparkpgoutput.types.{Conversion, ValueWriter}

/** Reads arrays of both formats by way of their elements. */
abstract class ArrayElementsConversion(text: ArrayElements, binary: ArrayElements)
    extends Conversion {

  /** Writes the array that the elements begin. */
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
