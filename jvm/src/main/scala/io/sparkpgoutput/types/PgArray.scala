package io.sparkpgoutput.types

import org.apache.spark.sql.types.{ArrayType, DataType, VariantType}

/**
 * Arrays: ARRAY of elements that can be NULL, nested once for each dimension, or VARIANT.
 *
 * @param elementOid
 *   0 where it is not known
 */
final class PgArray(element: PgType, elementOid: Long) extends PgType {

  /** As `format_type` has it. */
  override val name: String = s"${element.name}[]"

  override def sparkType(modifier: Int): DataType = ArrayType(element.sparkType(modifier))

  override def conversion(target: DataType, options: ConversionOptions): Option[Conversion] =
    target match {
      case array: ArrayType if PgArray.takesNulls(array) =>
        element
          .to(PgArray.leaf(array), options)
          .map(new ArrayConversion(array, text, binary, _))
      case VariantType if !element.isInstanceOf[PgUnknown] =>
        Some(new ArrayVariant(text, binary, element, options))
      case _ => None
    }

  override def printer(options: ConversionOptions): Printer =
    new ArrayPrinter(element.delimiter, binary, element.printer(options))

  private def text = new TextArrayElements(name, element.delimiter)
  private def binary = new BinaryArrayElements(name, elementOid)
}

object PgArray {

  /** The type of the elements in arrays of arrays. */
  def leaf(array: ArrayType): DataType = array.elementType match {
    case nested: ArrayType => leaf(nested)
    case other             => other
  }

  /** Whether the elements in arrays of arrays can be NULL, as those of any array in PostgreSQL. */
  private def takesNulls(array: ArrayType): Boolean = array.elementType match {
    case nested: ArrayType => takesNulls(nested)
    case _                 => array.containsNull
  }
}
