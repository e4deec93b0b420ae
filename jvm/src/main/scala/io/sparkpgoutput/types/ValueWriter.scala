package io.sparkpgoutput.types

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeWriter
import org.apache.spark.sql.types.{DataType, Decimal, DecimalType, StructType}
import org.apache.spark.unsafe.types.VariantVal

/**
 * Writes values of one Spark type to a place: a member of a row, or an element of an array.
 *
 * @param ordinal the member or element that is written next
 */
final class ValueWriter(val writer: UnsafeWriter, dataType: DataType, var ordinal: Int) {
  private val size = ValueWriter.elementSize(dataType)

  def write(value: Boolean): Unit = writer.write(ordinal, value)
  def write(value: Byte): Unit = writer.write(ordinal, value)
  def write(value: Short): Unit = writer.write(ordinal, value)
  def write(value: Int): Unit = writer.write(ordinal, value)
  def write(value: Long): Unit = writer.write(ordinal, value)
  def write(value: Float): Unit = writer.write(ordinal, value)
  def write(value: Double): Unit = writer.write(ordinal, value)
  def write(value: VariantVal): Unit = writer.write(ordinal, value)

  /** Writes a string or binary. */
  def write(bytes: Array[Byte], from: Int, size: Int): Unit =
    writer.write(ordinal, bytes, from, size)

  /** Writes a decimal that already has the precision and scale. */
  def write(value: Decimal, precision: Int, scale: Int): Unit =
    writer.write(ordinal, value, precision, scale)

  def setNull(): Unit = dataType match {
    // A wide decimal takes its room even if it is NULL.
    case decimal: DecimalType if decimal.precision > Decimal.MAX_LONG_DIGITS =>
      writer.write(ordinal, null: Decimal, decimal.precision, decimal.scale)
    case _ =>
      size match {
        case 1 => writer.setNull1Bytes(ordinal)
        case 2 => writer.setNull2Bytes(ordinal)
        case 4 => writer.setNull4Bytes(ordinal)
        case _ => writer.setNull8Bytes(ordinal)
      }
  }
}

object ValueWriter {

  /** Makes a writer for each member of a row. */
  def all(writer: UnsafeWriter, struct: StructType): Array[ValueWriter] =
    struct.fields.zipWithIndex.map { case (member, ordinal) =>
      new ValueWriter(writer, member.dataType, ordinal)
    }

  /** The size of an element in the fixed part of an array (`UnsafeArrayData`), in bytes. */
  def elementSize(dataType: DataType): Int = dataType match {
    case _: DecimalType                          => 8
    case fixed if UnsafeRow.isFixedLength(fixed) => fixed.defaultSize
    case _                                       => 8
  }
}
