package io.sparkpgoutput.changes.rows

import org.apache.spark.sql.catalyst.expressions.codegen.{UnsafeArrayWriter, UnsafeRowWriter}
import org.apache.spark.unsafe.types.UTF8String

/** The bytes of an ARRAY<STRING> in a row (`UnsafeArrayData`). */
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
    row.getRow.getArray(0).copy().getBaseObject.asInstanceOf[Array[Byte]]
  }
}
