package io.sparkpgoutput.types.containers

import org.apache.spark.sql.catalyst.expressions.codegen.{UnsafeArrayWriter, UnsafeWriter}
import org.apache.spark.unsafe.Platform

import io.sparkpgoutput.types.ValueWriter

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
    // The address is computed again, because the buffer can be another one by now.
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
