package io.sparkpgoutput.lake.route

import java.util.Arrays

import scala.annotation.switch

import org.apache.spark.sql.catalyst.expressions.XXH64
import org.apache.spark.unsafe.Platform

/**
 * The key of a row as bytes: the text of each column with its length before it. Keys are equal if
 * their bytes are. Not thread-safe.
 */
final class KeyBytes {
  private var bytes = new Array[Byte](64)
  private var size = 0

  def clear(): Unit = size = 0

  def addNull(): Unit = length(-1)

  def add(source: Array[Byte], from: Int, to: Int): Unit = {
    length(to - from)
    reserve(to - from)
    append(source, from, to)
  }

  private def append(source: Array[Byte], from: Int, to: Int): Unit = {
    System.arraycopy(source, from, bytes, size, to - from)
    size += to - from
  }

  /**
   * Adds the text of a number, or of an array, a range or a composite value of numbers, so that equal numbers
   * have equal bytes: numeric has `1.0` and `1.00`, float has `0` and `-0`.
   */
  def addNumber(source: Array[Byte], from: Int, to: Int): Unit = {
    val begin = size
    length(0) // which is known at the end
    reserve(to - from)
    var at = from
    while (at < to) {
      var end = at
      while (end < to && !KeyBytes.isPunctuation(source(end))) end += 1
      val isZero = end - at == 2 && source(at) == '-' && source(at + 1) == '0'
      append(source, if (isZero) at + 1 else at, KeyBytes.endOfNumber(source, at, end))
      if (end < to) append(source, end, end + 1)
      at = end + 1
    }
    Platform.putInt(bytes, Platform.BYTE_ARRAY_OFFSET.toLong + begin, size - begin - 4)
  }

  def isSame(other: KeyBytes): Boolean =
    Arrays.equals(bytes, 0, size, other.bytes, 0, other.size)

  def copy: Array[Byte] = bytes.take(size)

  def hash: Long = XXH64.hashUnsafeBytes(bytes, Platform.BYTE_ARRAY_OFFSET.toLong, size, 42L)

  private def length(value: Int): Unit = {
    reserve(4)
    Platform.putInt(bytes, Platform.BYTE_ARRAY_OFFSET.toLong + size, value)
    size += 4
  }

  private def reserve(more: Int): Unit =
    if (size + more > bytes.length)
      bytes = Arrays.copyOf(bytes, math.max(2 * bytes.length, size + more))
}

private object KeyBytes {

  /** Returns whether a byte separates nested numbers. */
  private def isPunctuation(byte: Byte): Boolean = (byte.toChar: @switch) match {
    case '{' | '}' | '[' | ']' | '(' | ')' | ',' | ':' | '=' => true
    case _                                                   => false
  }

  /** The end of a number without the zeros that end its fraction. A number with an exponent has no such zeros. */
  private def endOfNumber(source: Array[Byte], from: Int, to: Int): Int = {
    var hasPoint = false
    var hasExponent = false
    var at = from
    while (at < to) {
      hasPoint |= source(at) == '.'
      hasExponent |= source(at) == 'e'
      at += 1
    }
    var end = to
    if (hasPoint && !hasExponent) {
      while (source(end - 1) == '0') end -= 1
      if (source(end - 1) == '.') end -= 1
    }
    end
  }
}
