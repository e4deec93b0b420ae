package io.sparkpgoutput.lake.batch

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform

/**
 * Rows of one table that follow each other, as bytes: an Int64 with the size of a row, and the row as
 * an UnsafeRow, and so on. Spark writes an array of bytes to disk much faster than rows.
 */
object ChangeChunk {
  final private val MaxSize = 1 << 20
  final private[batch] val Head = 8

  /** Puts rows into arrays. */
  def pack(rows: Iterator[InternalRow]): Iterator[Array[Byte]] =
    new Iterator[Array[Byte]] {
      private val ahead = rows.buffered
      private var buffer = new Array[Byte](MaxSize)

      override def hasNext: Boolean = ahead.hasNext

      override def next(): Array[Byte] = {
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
        } while (fits(size))
        java.util.Arrays.copyOf(buffer, size)
      }

      private def fits(size: Int): Boolean = ahead.hasNext &&
        size + Head + ahead.head.asInstanceOf[UnsafeRow].getSizeInBytes <= MaxSize
    }

  /** Reads the changes of arrays, each of which the next one overwrites. */
  def unpack(chunks: Iterator[Array[Byte]]): Iterator[ChangeView] = chunks.flatMap { chunk =>
    val view = new ChangeView
    places(chunk).map { at =>
      view.start(chunk, at + Head, sizeAt(chunk, at))
      view
    }
  }

  /** Returns the changes of arrays in the order of [[ChangeFields.order]]. */
  def sorted(chunks: Iterator[Array[Byte]]): Array[ChangeView] = {
    val views = chunks.flatMap { chunk =>
      places(chunk).map { at =>
        val view = new ChangeView
        view.start(chunk, at + Head, sizeAt(chunk, at))
        view
      }
    }.toArray
    java.util.Arrays.sort(views, ChangeView.order)
    views
  }

  /** Reads the rows of arrays, each of which the next one overwrites. */
  def rows(chunks: Iterator[Array[Byte]]): Iterator[InternalRow] = chunks.flatMap { chunk =>
    val row = new UnsafeRow(ChangeFields.schema.length)
    places(chunk).map { at =>
      row.pointTo(chunk, Platform.BYTE_ARRAY_OFFSET.toLong + at + Head, sizeAt(chunk, at))
      row
    }
  }

  /** The places of the rows of an array, each with its size before it. */
  private def places(chunk: Array[Byte]): Iterator[Int] = new Iterator[Int] {
    private var at = 0
    override def hasNext: Boolean = at < chunk.length
    override def next(): Int = {
      val found = at
      at += Head + sizeAt(chunk, at)
      found
    }
  }

  private def sizeAt(chunk: Array[Byte], at: Int): Int =
    Platform.getLong(chunk, Platform.BYTE_ARRAY_OFFSET.toLong + at).toInt
}
