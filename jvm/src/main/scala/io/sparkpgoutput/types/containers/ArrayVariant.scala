package io.sparkpgoutput.types.containers

import java.util.ArrayList

import org.apache.spark.types.variant.{VariantBuilder, VariantSizeLimitException}

import io.sparkpgoutput.types.{ValueWriter, VariantValue}

/** Reads arrays of any dimensions as VARIANT. */
final class ArrayVariant(
    text: ArrayElements,
    binary: ArrayElements,
    element: VariantValue
) extends ArrayElementsConversion(text, binary) {
  override protected def write(elements: ArrayElements, out: ValueWriter): Unit = {
    val builder = new VariantBuilder(false)
    try
      if (elements.dimensions > 0) appendDimension(0, elements, builder)
      else builder.finishWritingArray(builder.getWritePos, new ArrayList[Integer])
    catch { case _: VariantSizeLimitException => throw VariantValue.tooLarge }
    out.write(VariantValue.of(builder))
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
      else if (elements.next()) element.append(elements.convert(_, _), builder)
      else builder.appendNull()
      index += 1
    }
    builder.finishWritingArray(start, offsets)
  }
}
