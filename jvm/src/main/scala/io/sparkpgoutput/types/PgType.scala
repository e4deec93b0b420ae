package io.sparkpgoutput.types

import org.apache.spark.sql.types.{DataType, StringType}

/**
 * A type of PostgreSQL's, and the Spark types that its values can be read as.
 *
 * By default, values are read as STRING only.
 *
 * @param name the name in PostgreSQL's catalog (`pg_type.typname`)
 */
abstract class PgType(val name: String) {

  /** The character between the elements of an array's text (`pg_type.typdelim`). */
  def delimiter: Char = ','

  /** The text of a column's type modifier, as `format_type` shows it: `(12,2)` of `numeric(12,2)`. */
  def modifierText(modifier: Int): String = ""

  /** The type and its modifier, as people write them. */
  def describe(modifier: Int): String = name + (if (modifier < 0) "" else modifierText(modifier))

  /** Tells whether PostgreSQL or an option says which type this is. */
  def isKnown: Boolean = true

  def isArray: Boolean = false

  /** The Spark type that values have unless the user asks for another one. */
  def sparkType(modifier: Int): DataType = StringType

  /**
   * Tells whether text of an unknown type is read as text of this type, if the user asks for a
   * Spark type.
   */
  def readsUnknown(target: DataType): Boolean = false

  /** Reads values as a Spark type other than STRING; None if that is not possible. */
  protected def conversion(target: DataType, options: ConversionOptions): Option[Conversion] = None

  /** Prints binary values. */
  def printer(options: ConversionOptions): Printer

  /** Reads values as a Spark type; None if that is not possible. */
  final def to(target: DataType, options: ConversionOptions): Option[Conversion] = target match {
    case _: StringType => Some(new StringConversion(printer(options)))
    case other         => conversion(other, options)
  }

  /** The Spark type that values have in a VARIANT. */
  protected def variantType: DataType = sparkType(-1)

  /** Appends values to a VARIANT. */
  def variantValue(options: ConversionOptions): VariantValue =
    new VariantValue(variantType, to(variantType, options).get)

  override def toString: String = name
}
