package io.sparkpgoutput.types.containers

import java.util.ArrayList

import org.apache.spark.sql.types.{ArrayType, DataType, VariantType}
import org.apache.spark.types.variant.{VariantBuilder, VariantSizeLimitException}

import io.sparkpgoutput.types._

/**
 * Arrays. They are an ARRAY whose elements can be NULL, nested once for each dimension, or a VARIANT.
 *
 * @param elementOid 0 if it is not known
 */
final class PgArray(element: PgType, elementOid: Long) extends PgType(s"${element.name}[]") {
  override def describe(modifier: Int): String = s"${element.describe(modifier)}[]"

  override def sparkType(modifier: Int): DataType = ArrayType(element.sparkType(modifier))

  override protected def variantType: DataType = VariantType

  override def conversion(target: DataType, options: ConversionOptions): Option[Conversion] =
    target match {
      // The elements of any array in PostgreSQL can be NULL.
      case array: ArrayType if nested(array).head.containsNull =>
        element
          .to(nested(array).head.elementType, options)
          .map(new ArrayConversion(array, _, options.isOfKey))
      case VariantType if element.isKnown =>
        Some(new ArrayVariant(element.variantValue(options)))
      case _ => None
    }

  /** Returns an array and the arrays that are nested in it, the innermost first. */
  private def nested(array: ArrayType): List[ArrayType] = array.elementType match {
    case inner: ArrayType => nested(inner) :+ array
    case _                => List(array)
  }

  override def printer(options: ConversionOptions): Printer =
    new ArrayPrinter(element.printer(options))

  /** Reads arrays of both formats by way of their elements. */
  abstract private class ArrayElementsConversion extends Conversion {
    private val text = new TextArrayElements(name, element.delimiter)
    private val binary = new BinaryArrayElements(name, elementOid)

    /** Writes the array that `elements` has started. */
    protected def write(elements: ArrayElements, out: ValueWriter): Unit

    override def fromText(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit = {
      text.start(bytes, from, to)
      write(text, out)
    }

    override def fromBinary(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit = {
      binary.start(bytes, from, to)
      write(binary, out)
    }
  }

  /**
   * Reads arrays as ARRAY, nested once for each dimension.
   *
   * @param isOfKey whether arrays that differ only in their lower bounds must not become equal
   */
  final private class ArrayConversion(target: ArrayType, leaf: Conversion, isOfKey: Boolean)
      extends ArrayElementsConversion {

    private val depth = nested(target).length

    override protected def write(elements: ArrayElements, out: ValueWriter): Unit = {
      if (elements.dimensions > 0 && elements.dimensions != depth) throw otherDepth(elements)
      if (isOfKey && elements.hasOtherBounds) throw otherBounds
      writeDimension(0, elements, out)
    }

    private def writeDimension(dimension: Int, elements: ArrayElements, out: ValueWriter): Unit = {
      val start = out.writer.cursor
      val size = elements.sizes(dimension)
      val slot = out.openArray(size)
      while (slot.ordinal < size) {
        if (dimension + 1 < elements.dimensions) writeDimension(dimension + 1, elements, slot)
        else if (elements.next()) elements.convert(leaf, slot)
        else slot.setNull()
        slot.ordinal += 1
      }
      out.close(start)
    }

    private def otherBounds =
      new InvalidValue("is a part of a key and does not begin with the index 1", "use STRING")

    private def otherDepth(elements: ArrayElements) = {
      val leaf = nested(target).head.elementType
      val fitting = (1 to elements.dimensions).foldLeft(leaf)((inner, _) => ArrayType(inner))
      new InvalidValue(
        s"has ${elements.dimensions} dimensions, ${target.sql} takes $depth",
        s"use ${fitting.sql}"
      )
    }
  }

  /** Reads arrays of any dimensions as VARIANT. */
  final private class ArrayVariant(leaf: VariantValue) extends ArrayElementsConversion {
    override protected def write(elements: ArrayElements, out: ValueWriter): Unit = {
      val builder = new VariantBuilder(false)
      try appendDimension(0, elements, builder)
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
        else if (elements.next()) leaf.append(elements.convert(_, _), builder)
        else builder.appendNull()
        index += 1
      }
      builder.finishWritingArray(start, offsets)
    }
  }

  /** Prints arrays as `array_out` does. */
  final private class ArrayPrinter(leaf: Printer) extends Printer {
    private val elements = new BinaryArrayElements(name, elementOid)
    private val text = new TextBuffer
    private val delimiter = element.delimiter
    private val special = Ascii.set(s"\"\\{}$delimiter${Ascii.Spaces}")

    override def print(bytes: Array[Byte], from: Int, to: Int, out: TextBuffer): Unit = {
      elements.start(bytes, from, to)
      if (elements.hasOtherBounds) printBounds(out)
      printDimension(0, out)
    }

    private def printBounds(out: TextBuffer): Unit = {
      (0 until elements.dimensions).foreach { dimension =>
        val first = elements.lowerBounds(dimension).toLong
        out.add('[')
        out.number(first)
        out.add(':')
        out.number(first + elements.sizes(dimension) - 1)
        out.add(']')
      }
      out.add('=')
    }

    private def printDimension(dimension: Int, out: TextBuffer): Unit = {
      out.add('{')
      out.list(elements.sizes(dimension), delimiter) {
        if (dimension + 1 < elements.dimensions) printDimension(dimension + 1, out)
        else if (elements.next()) printElement(out)
        else out.add("NULL")
      }
      out.add('}')
    }

    private def printElement(out: TextBuffer): Unit = {
      text.clear()
      elements.print(leaf, text)
      if (Ascii.isNull(text.bytes, 0, text.size)) out.quoted(text.bytes, 0, text.size, '"', '\\')
      else out.quotedIfNeeded(text, special, escape = '\\')
    }
  }
}
