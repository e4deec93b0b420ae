package io.sparkpgoutput.lake.batch

import java.util.Arrays

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection
import org.apache.spark.unsafe.Platform

/**
 * Packs rows of [[ChangeFields]] into arrays of [[ChangeChunk]], in order. Not thread-safe.
 *
 * @param most the size of an array in bytes. A larger row has an array of its own.
 * @param put takes an array that is full, or the last one
 */
final class ChangePacker(most: Int, put: Array[Byte] => Unit) {
  private val unsafe = UnsafeProjection.create(ChangeFields.schema)
  private var buffer = new Array[Byte](math.min(most, ChangePacker.First))
  private var size = 0

  def add(row: InternalRow): Unit = {
    val packed = unsafe(row)
    if (size > 0 && size + ChangeChunk.Head.toLong + packed.getSizeInBytes > most) flush()
    val end = Math.addExact(size, Math.addExact(ChangeChunk.Head, packed.getSizeInBytes))
    if (end > buffer.length)
      buffer = Arrays.copyOf(buffer, math.max(end, math.min(most, 2 * buffer.length)))
    val offset = Platform.BYTE_ARRAY_OFFSET.toLong + size
    Platform.putLong(buffer, offset, packed.getSizeInBytes.toLong)
    packed.writeToMemory(buffer, offset + ChangeChunk.Head)
    size = end
  }

  /** Gives the rows that no array has had yet. */
  def flush(): Unit = if (size > 0) {
    put(Arrays.copyOf(buffer, size))
    size = 0
    if (buffer.length > most) buffer = new Array[Byte](most)
  }
}

private object ChangePacker {
  final private val First = 1 << 16
}
