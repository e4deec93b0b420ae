package io.sparkpgoutput.types

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.types._
import org.apache.spark.types.variant.{Variant, VariantBuilder, VariantSizeLimitException}
import org.apache.spark.unsafe.types.VariantVal

import io.sparkpgoutput.protocol.TupleCells

/**
 * Reads the values of a PostgreSQL type as values of a Spark type.
 *
 * A value is the bytes of a cell, or of an element or field in it, from `from` up to but not
 * including `to`. If a value does not fit, the conversion throws [[InvalidValue]]. Not thread-safe.
 */
abstract class Conversion {

  /** Reads the value from its text, in UTF-8. */
  def fromText(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit

  /** Reads the value from the bytes that the type's send function wrote. */
  def fromBinary(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit

  /** Reads the value of a cell of kind t or b. */
  final def fromCell(kind: Int, cells: TupleCells, out: ValueWriter): Unit =
    if (kind == 't') fromText(cells.bytes, cells.from, cells.to, out)
    else fromBinary(cells.bytes, cells.from, cells.to, out)
}

/** Reads a binary value by way of its text: it prints the value as the server does. */
abstract class PrintedConversion(printer: Printer) extends Conversion {
  private val text = new TextBuffer

  final override def fromBinary(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit = {
    text.clear()
    printer.print(bytes, from, to, text)
    fromText(text.bytes, 0, text.size, out)
  }
}

/**
 * Reads values as STRING. It copies text, and prints binary values.
 *
 * @param length the most characters that a text can have
 */
class StringConversion(printer: Printer, length: Int = Int.MaxValue)
    extends PrintedConversion(printer) {
  override def fromText(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit = {
    // A character has one byte at least. Each of its other bytes begins with the bits 10.
    if (to - from > length && (from until to).count(at => (bytes(at) & 0xc0) != 0x80) > length)
      throw new InvalidValue(s"has more than $length characters", "use STRING")
    out.write(bytes, from, to - from)
  }
}

/**
 * Appends values of one type to a VARIANT. Not thread-safe.
 *
 * @param sparkType the Spark type that a value is read as before it is appended
 */
class VariantValue(sparkType: DataType, conversion: Conversion) {
  private val writer = new UnsafeRowWriter(1)
  private val slot = new ValueWriter(writer, sparkType, 0)

  /** Appends the value that `read` writes with the conversion. */
  final def append(read: (Conversion, ValueWriter) => Unit, builder: VariantBuilder): Unit = {
    writer.reset()
    writer.zeroOutNullBytes()
    read(conversion, slot)
    val row = writer.getRow
    if (row.isNullAt(0)) builder.appendNull() else append(row, builder)
  }

  /** Appends the row's only member, which is not NULL. */
  protected def append(row: UnsafeRow, builder: VariantBuilder): Unit = sparkType match {
    case BooleanType      => builder.appendBoolean(row.getBoolean(0))
    case ShortType        => builder.appendLong(row.getShort(0).toLong)
    case IntegerType      => builder.appendLong(row.getInt(0).toLong)
    case LongType         => builder.appendLong(row.getLong(0))
    case FloatType        => builder.appendFloat(row.getFloat(0))
    case DoubleType       => builder.appendDouble(row.getDouble(0))
    case DateType         => builder.appendDate(row.getInt(0))
    case TimestampType    => builder.appendTimestamp(row.getLong(0))
    case TimestampNTZType => builder.appendTimestampNtz(row.getLong(0))
    case BinaryType       => builder.appendBinary(row.getBinary(0))
    case VariantType =>
      val nested = row.getVariant(0)
      builder.appendVariant(new Variant(nested.getValue, nested.getMetadata))
    case decimal: DecimalType =>
      val value = row.getDecimal(0, decimal.precision, decimal.scale)
      builder.appendDecimal(value.toJavaBigDecimal)
    case _: StringType => builder.appendString(row.getUTF8String(0).toString)
    case other         => throw new IllegalStateException(s"${other.sql} in VARIANT")
  }
}

object VariantValue {

  /** The VARIANT that was built. */
  def of(builder: VariantBuilder): VariantVal =
    try {
      val variant = builder.result()
      new VariantVal(variant.getValue, variant.getMetadata)
    } catch { case _: VariantSizeLimitException => throw tooLarge }

  def tooLarge: InvalidValue = new InvalidValue("is too large for VARIANT", "use STRING")
}

/**
 * Writes values of one Spark type to a place: a member of a row, or an element of an array.
 *
 * @param ordinal the member or element that is written next
 */
final class ValueWriter(val writer: UnsafeWriter, dataType: DataType, var ordinal: Int) {
  private val size = ValueWriter.elementSize(dataType)

  // The writers of a value's parts are made when a value has parts for the first time.
  private lazy val array = new UnsafeArrayWriter(writer, ValueWriter.elementSize(elementType))
  private lazy val element = new ValueWriter(array, elementType, 0)
  private lazy val row = new UnsafeRowWriter(writer, struct.length)
  private lazy val members = ValueWriter.all(row, struct)

  private def struct = dataType.asInstanceOf[StructType]
  private def elementType = dataType match {
    case ArrayType(element, _) => element
    case _                     => StringType // a map's keys and values are arrays of strings
  }

  /** Begins an array of so many elements at the cursor. The result writes one element after another. */
  def openArray(size: Int): ValueWriter = {
    array.initialize(size)
    element.ordinal = 0
    element
  }

  /** Begins a struct at the cursor. The results write its members. */
  def openStruct(): Array[ValueWriter] = {
    row.resetRowWriter()
    members
  }

  /** Ends the array, map or struct that begins at a place of the cursor. */
  def close(start: Int): Unit = writer.setOffsetAndSizeFromPreviousCursor(ordinal, start)

  def write(value: Boolean): Unit = writer.write(ordinal, value)
  def write(value: VariantVal): Unit = writer.write(ordinal, value)

  /** Writes a number in as many bytes as Spark keeps it in: for example a BYTE, a DATE or a narrow DECIMAL. */
  def write(value: Long): Unit = size match {
    case 1 => writer.write(ordinal, value.toByte)
    case 2 => writer.write(ordinal, value.toShort)
    case 4 => writer.write(ordinal, value.toInt)
    case _ => writer.write(ordinal, value)
  }

  /** Writes a DOUBLE, or a FLOAT that is exactly this number. */
  def write(value: Double): Unit =
    if (size == 4) writer.write(ordinal, value.toFloat) else writer.write(ordinal, value)

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
  private def elementSize(dataType: DataType): Int =
    if (UnsafeRow.isFixedLength(dataType)) dataType.defaultSize else 8
}
