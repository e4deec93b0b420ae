package io.sparkpgoutput.types

import java.math.BigDecimal
import java.util.ArrayList

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter
import org.apache.spark.sql.types._
import org.apache.spark.types.variant.{Variant, VariantBuilder, VariantSizeLimitException}
import org.apache.spark.unsafe.types.{UTF8String, VariantVal}

/**
 * Reads arrays of any dimensions to VARIANT, elements as the Spark type that they have by default,
 * json as VARIANT, numeric as DECIMAL, hstore as STRING.
 */
final private[types] class ArrayVariant(
    text: ArrayElements,
    binary: ArrayElements,
    element: PgType,
    options: ConversionOptions
) extends ArrayElementsConversion(text, binary) {
  private val elementType: DataType = element match {
    case _: PgJson => VariantType
    case PgHstore  => StringType
    case known     => known.sparkType(-1)
  }
  private val conversion: Conversion = element.to(elementType, options).get
  private val writer = new UnsafeRowWriter(1)
  private val slot = new Slot(writer, elementType, 0)

  override protected def write(elements: ArrayElements, out: Slot): Unit = {
    val builder = new VariantBuilder(false)
    val variant =
      try {
        if (elements.dimensions > 0) appendDimension(0, elements, builder)
        else builder.finishWritingArray(builder.getWritePos, new ArrayList[Integer])
        builder.result()
      } catch {
        case _: VariantSizeLimitException =>
          throw new InvalidValue("is too large for VARIANT", JsonConversion.Remedy)
      }
    out.write(new VariantVal(variant.getValue, variant.getMetadata))
  }

  private def appendDimension(
      dimension: Int,
      elements: ArrayElements,
      builder: VariantBuilder
  ): Unit = {
    val start = builder.getWritePos
    val offsets = new ArrayList[Integer]
    var index = 0
    while (index < elements.sizes(dimension)) {
      offsets.add(builder.getWritePos - start)
      if (dimension + 1 < elements.dimensions) appendDimension(dimension + 1, elements, builder)
      else if (elements.next()) append(read(elements), builder)
      else builder.appendNull()
      index += 1
    }
    builder.finishWritingArray(start, offsets)
  }

  private def read(elements: ArrayElements): UnsafeRow = {
    writer.reset()
    writer.zeroOutNullBytes()
    elements.convert(conversion, slot)
    writer.getRow
  }

  private def append(row: UnsafeRow, builder: VariantBuilder): Unit =
    if (row.isNullAt(0)) builder.appendNull()
    else
      elementType match {
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
        case _ if element eq PgNumeric =>
          builder.appendDecimal(exact(row.getUTF8String(0)))
        case _: StringType => builder.appendString(row.getUTF8String(0).toString)
        case other => throw new IllegalStateException(s"${element.name} as ${other.sql} in VARIANT")
      }

  /** A number that a decimal of VARIANT's holds, with as many digits after the point. */
  private def exact(text: UTF8String): BigDecimal = {
    // Longer ones do not fit, and would take BigDecimal long.
    val number = text.substring(0, ArrayVariant.MostCharacters + 1).toString
    val value =
      try new BigDecimal(number)
      catch { case _: NumberFormatException => throw notDecimal(number) }
    val fits = number.length <= ArrayVariant.MostCharacters &&
      value.precision <= DecimalType.MAX_PRECISION &&
      value.scale >= 0 && value.scale <= DecimalType.MAX_SCALE
    if (!fits) throw notDecimal(number)
    value
  }

  private def notDecimal(number: String) =
    new InvalidValue(s"has $number, which no decimal in VARIANT can be", "use ARRAY<STRING>")
}

private object ArrayVariant {

  /** A sign, a zero, the point, and the digits after it. */
  final private val MostCharacters = 3 + DecimalType.MAX_SCALE
}
