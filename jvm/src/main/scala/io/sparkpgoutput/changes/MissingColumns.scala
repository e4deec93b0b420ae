package io.sparkpgoutput.changes

import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.codegen.{UnsafeArrayWriter, UnsafeRowWriter}
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.UTF8String

/** Columns of a table, as an array of their names. */
final class MissingColumns(relation: Relation) {
  private val columns = new Array[Int](relation.columns.length)
  private var count = 0

  /** Those whose names were asked for last: mostly the same are missing again. */
  private var named = Array.emptyIntArray
  private var lastNames = NameArray.empty

  def clear(): Unit = count = 0
  def add(column: Int): Unit = { columns(count) = column; count += 1 }

  /** Their names, as [[NameArray]] lays them out. */
  def names: Array[Byte] = {
    if (!Arrays.equals(columns, 0, count, named, 0, named.length)) {
      named = columns.take(count)
      lastNames = NameArray.of(named.toSeq.map(relation.columns(_).name))
    }
    lastNames
  }
}

/** An ARRAY<STRING> as rows have it (`UnsafeArrayData`). */
object NameArray {
  val empty: Array[Byte] = of(Nil)

  def of(names: Seq[String]): Array[Byte] = {
    val row = new UnsafeRowWriter(1)
    row.reset()
    val start = row.cursor
    val array = new UnsafeArrayWriter(row, 8)
    array.initialize(names.length)
    names.zipWithIndex.foreach { case (name, index) =>
      array.write(index, UTF8String.fromString(name))
    }
    row.setOffsetAndSizeFromPreviousCursor(0, start)
    val written = row.getRow.getArray(0)
    val bytes = new Array[Byte](written.getSizeInBytes)
    written.writeToMemory(bytes, Platform.BYTE_ARRAY_OFFSET.toLong)
    bytes
  }
}
