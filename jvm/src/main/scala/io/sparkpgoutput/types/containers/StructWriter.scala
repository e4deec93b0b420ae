package io.sparkpgoutput.types.containers

import org.apache.spark.sql.catalyst.expressions.codegen.{UnsafeRowWriter, UnsafeWriter}
import org.apache.spark.sql.types.StructType

import io.sparkpgoutput.types.ValueWriter

/** Writes a struct that is a member of a row or an element of an array. */
final class StructWriter(struct: StructType) {
  private var parent: UnsafeWriter = _
  private var row: UnsafeRowWriter = _
  private var slots: Array[ValueWriter] = _
  private var start = 0

  /** Begins a struct. Write each of its members, then call `close`. */
  def open(out: ValueWriter): Unit = {
    if (out.writer ne parent) {
      parent = out.writer
      row = new UnsafeRowWriter(parent, struct.length)
      slots = ValueWriter.all(row, struct)
    }
    start = parent.cursor
    row.resetRowWriter()
  }

  def apply(ordinal: Int): ValueWriter = slots(ordinal)

  def close(out: ValueWriter): Unit = parent.setOffsetAndSizeFromPreviousCursor(out.ordinal, start)
}
