package io.sparkpgoutput.types.containers

import io.sparkpgoutput.types.{Conversion, ValueWriter}

/**
 * The elements of an array, which are read one after the other. Used again for one after another.
 */
abstract class ArrayElements {

  /** The number of dimensions; 0 where the array is empty. */
  var dimensions = 0

  /** The number of elements of each dimension. */
  val sizes: Array[Int] = new Array[Int](ArrayElements.MostDimensions)

  /** The number of the first element of each dimension; in text only where it says so. */
  val lowerBounds: Array[Int] = new Array[Int](ArrayElements.MostDimensions)

  /** Where the element is that `next` went to: from `from` up to `to`. */
  var bytes: Array[Byte] = Array.emptyByteArray
  var from = 0
  var to = 0

  /** Begins with an array; finds out its dimensions, whose elements are no more than the bytes. */
  def start(bytes: Array[Byte], from: Int, to: Int): Unit

  /**
   * Goes to the next element, of which there are as many as the dimensions say; false for NULL.
   * After the last one the array ends.
   */
  def next(): Boolean

  /** Reads the element that `next` went to. */
  def convert(conversion: Conversion, out: ValueWriter): Unit
}

object ArrayElements {

  /** `MAXDIM` */
  final val MostDimensions = 6
}
