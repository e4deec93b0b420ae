package io.sparkpgoutput.types.containers

import org.apache.spark.sql.types.{ArrayType, DataType, VariantType}

import io.sparkpgoutput.types.{Conversion, ConversionOptions, PgType, Printer}

/**
 * Arrays. They are an ARRAY whose elements can be NULL, nested once for each dimension, or a VARIANT.
 *
 * @param elementOid 0 if it is not known
 */
final class PgArray(element: PgType, elementOid: Long) extends PgType(s"${element.name}[]") {
  override def isArray: Boolean = true

  override def describe(modifier: Int): String = s"${element.describe(modifier)}[]"

  override def sparkType(modifier: Int): DataType = ArrayType(element.sparkType(modifier))

  override def readsUnknown(target: DataType): Boolean =
    !element.isKnown && target.isInstanceOf[ArrayType]

  override protected def variantType: DataType = VariantType

  override def conversion(target: DataType, options: ConversionOptions): Option[Conversion] =
    target match {
      case array: ArrayType if PgArray.takesNulls(array) =>
        element
          .to(PgArray.leaf(array), options)
          .map(new ArrayConversion(array, text, binary, _, options.isOfKey))
      case VariantType if element.isKnown =>
        Some(new ArrayVariant(text, binary, element.variantValue(options)))
      case _ => None
    }

  override def printer(options: ConversionOptions): Printer =
    new ArrayPrinter(element.delimiter, binary, element.printer(options))

  private def text = new TextArrayElements(name, element.delimiter)
  private def binary = new BinaryArrayElements(name, elementOid)
}

object PgArray {

  /** Returns the type of the innermost elements. */
  def leaf(array: ArrayType): DataType = array.elementType match {
    case nested: ArrayType => leaf(nested)
    case other             => other
  }

  /** Tells whether the innermost elements can be NULL, as those of any array in PostgreSQL. */
  private def takesNulls(array: ArrayType): Boolean = array.elementType match {
    case nested: ArrayType => takesNulls(nested)
    case _                 => array.containsNull
  }
}
