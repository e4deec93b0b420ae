package io.sparkpgoutput.types.containers

import io.sparkpgoutput.types.{Conversion, ValueWriter}

/**
 * Reads the elements of an array, one after the other. An instance reads one array after another.
 */
abstract class ArrayElements {

  /** The number of dimensions. An empty array has 0. */
  var dimensions = 0

  /** The number of elements of each dimension. */
  val sizes: Array[Int] = new Array[Int](ArrayElements.MostDimensions)

  /** The index of the first element of each dimension. Text sets it only if it begins with bounds. */
  val lowerBounds: Array[Int] = new Array[Int](ArrayElements.MostDimensions)

  /** The current element is in the bytes from `from` up to `to`. */
  var bytes: Array[Byte] = Array.emptyByteArray
  var from = 0
  var to = 0

  /** Begins with an array and finds its dimensions. They never have more elements than bytes. */
  def start(bytes: Array[Byte], from: Int, to: Int): Unit

  /**
   * Goes to the next element and returns false if it is NULL. Call this once for each element of the
   * dimensions. The last call checks that the array ends there.
   */
  def next(): Boolean

  /** Reads the current element. */
  def convert(conversion: Conversion, out: ValueWriter): Unit
}

object ArrayElements {

  /** `MAXDIM` */
  final val MostDimensions = 6
}
