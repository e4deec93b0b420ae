package io.sparkpgoutput.lake.batch

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform

/**
 * Rows of one table that follow each other, as bytes: an Int64 with the size of a row, and the row as
 * an UnsafeRow, and so on. Spark writes an array of bytes to disk much faster than rows, and the rows
 * of another table need not be looked at.
 */
object ChangeChunk {
  final private val MaxSize = 1 << 20
  final private val Head = 8

  /** Puts the rows of each table into arrays with the oid of the table. */
  def pack(rows: Iterator[InternalRow]): Iterator[(Long, Array[Byte])] =
    new Iterator[(Long, Array[Byte])] {
      private val ahead = rows.buffered
      private var buffer = new Array[Byte](MaxSize)

      override def hasNext: Boolean = ahead.hasNext

      override def next(): (Long, Array[Byte]) = {
        val oid = ahead.head.getLong(ChangeFields.OID)
        var size = 0
        do {
          val row = ahead.next().asInstanceOf[UnsafeRow]
          val end = size + Head + row.getSizeInBytes
          if (end > buffer.length) buffer = java.util.Arrays.copyOf(buffer, end)
          Platform.putLong(
            buffer,
            Platform.BYTE_ARRAY_OFFSET.toLong + size,
            row.getSizeInBytes.toLong
          )
          row.writeToMemory(buffer, Platform.BYTE_ARRAY_OFFSET.toLong + size + Head)
          size = end
        } while (fits(size, oid))
        oid -> java.util.Arrays.copyOf(buffer, size)
      }

      private def fits(size: Int, oid: Long): Boolean = ahead.hasNext && {
        val row = ahead.head.asInstanceOf[UnsafeRow]
        row.getLong(ChangeFields.OID) == oid && size + Head + row.getSizeInBytes <= MaxSize
      }
    }

  /** Reads the changes of arrays, each of which the next one overwrites. */
  def unpack(chunks: Iterator[Array[Byte]]): Iterator[ChangeView] = chunks.flatMap { chunk =>
    val view = new ChangeView
    new Iterator[ChangeView] {
      private var at = 0
      override def hasNext: Boolean = at < chunk.length
      override def next(): ChangeView = {
        val size = Platform.getLong(chunk, Platform.BYTE_ARRAY_OFFSET.toLong + at).toInt
        view.start(chunk, at + Head, size)
        at += Head + size
        view
      }
    }
  }
}
