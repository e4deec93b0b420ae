package io.sparkpgoutput.types.containers

import java.util.{Arrays, HashSet}

import org.apache.spark.sql.catalyst.expressions.codegen.{UnsafeArrayWriter, UnsafeWriter}
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.UTF8String

import io.sparkpgoutput.types.{TextBuffer, ValueWriter}

/**
 * Writes a map of strings in the layout of `UnsafeMapData`: the size of the array of keys in bytes,
 * the array of keys, the array of values.
 */
final class StringMapWriter {
  private var writer: UnsafeWriter = null
  private var array: UnsafeArrayWriter = null

  def write(pairs: KeyValueBuffer, out: ValueWriter): Unit = {
    if (out.writer ne writer) {
      writer = out.writer
      array = new UnsafeArrayWriter(writer, 8)
    }
    val start = writer.cursor
    writer.grow(8)
    writer.increaseCursor(8)
    writeKeys(pairs)
    // The address is computed again, because the buffer can be another one now.
    Platform.putLong(writer.getBuffer, start.toLong, writer.cursor.toLong - start - 8)
    writeValues(pairs)
    writer.setOffsetAndSizeFromPreviousCursor(out.ordinal, start)
  }

  private def writeKeys(pairs: KeyValueBuffer): Unit = {
    array.initialize(pairs.size)
    var index = 0
    while (index < pairs.size) {
      val from = pairs.keyFrom(index)
      array.write(index, pairs.keys.bytes, from, pairs.keyTo(index) - from)
      index += 1
    }
  }

  private def writeValues(pairs: KeyValueBuffer): Unit = {
    array.initialize(pairs.size)
    var index = 0
    while (index < pairs.size) {
      val from = pairs.valueFrom(index)
      if (pairs.isNull(index)) array.setNull8Bytes(index)
      else array.write(index, pairs.values.bytes, from, pairs.valueTo(index) - from)
      index += 1
    }
  }
}

/** Keys and values of a map of strings. A value can be NULL. */
final class KeyValueBuffer {
  private var pairs = 0
  private var keyEnds = new Array[Int](16)
  private var valueEnds = new Array[Int](16)
  private var nulls = new Array[Boolean](16)

  val keys = new TextBuffer
  val values = new TextBuffer

  def size: Int = pairs
  def keyFrom(index: Int): Int = if (index == 0) 0 else keyEnds(index - 1)
  def keyTo(index: Int): Int = keyEnds(index)
  def valueFrom(index: Int): Int = if (index == 0) 0 else valueEnds(index - 1)
  def valueTo(index: Int): Int = valueEnds(index)
  def isNull(index: Int): Boolean = nulls(index)

  def clear(): Unit = {
    pairs = 0
    keys.clear()
    values.clear()
  }

  /** Ends a pair: the key and value are what `keys` and `values` got since the last pair. */
  def addPair(valueIsNull: Boolean): Unit = {
    if (pairs == nulls.length) {
      keyEnds = Arrays.copyOf(keyEnds, 2 * pairs)
      valueEnds = Arrays.copyOf(valueEnds, 2 * pairs)
      nulls = Arrays.copyOf(nulls, 2 * pairs)
    }
    keyEnds(pairs) = keys.size
    valueEnds(pairs) = values.size
    nulls(pairs) = valueIsNull
    pairs += 1
  }

  def hasDuplicateKeys: Boolean = {
    var index = 1
    while (index < pairs && precedes(index - 1, index)) index += 1
    index < pairs && {
      // A server sorts them in the encoding of the database, where the order can be another one.
      val distinct = new HashSet[UTF8String]
      (0 until pairs).exists(index => !distinct.add(key(index)))
    }
  }

  /** Returns whether a key precedes another one in a server's order: by size, then by the bytes. */
  private def precedes(one: Int, other: Int): Boolean = {
    val size = keyTo(one) - keyFrom(one)
    val otherSize = keyTo(other) - keyFrom(other)
    size < otherSize || size == otherSize && Arrays.compareUnsigned(
      keys.bytes,
      keyFrom(one),
      keyTo(one),
      keys.bytes,
      keyFrom(other),
      keyTo(other)
    ) < 0
  }

  private def key(index: Int): UTF8String =
    UTF8String.fromBytes(keys.bytes, keyFrom(index), keyTo(index) - keyFrom(index))
}
