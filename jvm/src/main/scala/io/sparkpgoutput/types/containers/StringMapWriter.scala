package io.sparkpgoutput.types.containers

import java.util.{Arrays, HashSet}

import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.UTF8String

import io.sparkpgoutput.types.{TextBuffer, ValueWriter}

/**
 * Collects the pairs of a map of strings, and writes them in the layout of `UnsafeMapData`: the size of
 * the array of keys in bytes, the array of keys, the array of values. A value can be NULL.
 */
final class StringMapWriter {
  val keys = new StringList
  val values = new StringList

  def clear(): Unit = {
    keys.clear()
    values.clear()
  }

  /** Ends a pair: the key and value are what the texts of `keys` and `values` got since the last pair. */
  def addPair(valueIsNull: Boolean): Unit = {
    keys.add(isNull = false)
    values.add(valueIsNull)
  }

  def write(out: ValueWriter): Unit = {
    val writer = out.writer
    val start = writer.cursor
    writer.grow(8)
    writer.increaseCursor(8)
    write(keys, out)
    // The address is computed again, because the buffer can be another one now.
    Platform.putLong(writer.getBuffer, start.toLong, writer.cursor.toLong - start - 8)
    write(values, out)
    out.close(start)
  }

  private def write(strings: StringList, out: ValueWriter): Unit = {
    val slot = out.openArray(strings.size)
    while (slot.ordinal < strings.size) {
      val index = slot.ordinal
      if (strings.isNull(index)) slot.setNull()
      else slot.write(strings.text.bytes, strings.from(index), strings.length(index))
      slot.ordinal += 1
    }
  }

  def hasDuplicateKeys: Boolean = {
    var index = 1
    while (index < keys.size && precedes(index - 1, index)) index += 1
    index < keys.size && {
      // A server sorts them in the encoding of the database, where the order can be another one.
      val distinct = new HashSet[UTF8String]
      (0 until keys.size).exists(index => !distinct.add(key(index)))
    }
  }

  /** Returns whether a key precedes another one in a server's order: by size, then by the bytes. */
  private def precedes(one: Int, other: Int): Boolean = {
    val size = keys.length(one)
    val otherSize = keys.length(other)
    size < otherSize || size == otherSize && Arrays.compareUnsigned(
      keys.text.bytes,
      keys.from(one),
      keys.to(one),
      keys.text.bytes,
      keys.from(other),
      keys.to(other)
    ) < 0
  }

  private def key(index: Int): UTF8String =
    UTF8String.fromBytes(keys.text.bytes, keys.from(index), keys.length(index))
}

/** Strings, each of which can be NULL. An instance holds one list after another. */
final class StringList {
  private var strings = 0
  private var ends = new Array[Int](16)
  private var nulls = new Array[Boolean](16)

  /** The bytes of all strings, one after the other. */
  val text = new TextBuffer

  def size: Int = strings
  def from(index: Int): Int = if (index == 0) 0 else ends(index - 1)
  def to(index: Int): Int = ends(index)
  def length(index: Int): Int = to(index) - from(index)
  def isNull(index: Int): Boolean = nulls(index)

  def clear(): Unit = {
    strings = 0
    text.clear()
  }

  /** Adds a string, which is what `text` got since the last one. */
  def add(isNull: Boolean): Unit = {
    if (strings == ends.length) {
      ends = Arrays.copyOf(ends, 2 * strings)
      nulls = Arrays.copyOf(nulls, 2 * strings)
    }
    ends(strings) = text.size
    nulls(strings) = isNull
    strings += 1
  }
}
