package io.sparkpgoutput.types

import org.apache.spark.sql.types.{BinaryType, CharType, DataType, StringType, VarcharType}

import io.sparkpgoutput.protocol.BigEndian

/**
 * A type of PostgreSQL, and the Spark types that its values can be read as.
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

  /** Returns whether PostgreSQL or an option says which type this is. */
  def isKnown: Boolean = true

  /** The Spark type that values have unless the user asks for another one. */
  def sparkType(modifier: Int): DataType = StringType

  /** Reads values as a Spark type other than STRING; None if that is not possible. */
  def conversion(target: DataType, options: ConversionOptions): Option[Conversion] = None

  /** Prints binary values. */
  def printer(options: ConversionOptions): Printer

  /** The text or the bytes are not a value of this type. */
  final protected def malformed: InvalidValue = InvalidValue.malformed(name)

  /** Reads a binary value of eight bytes. */
  final protected def int64(bytes: Array[Byte], from: Int, to: Int): Long = {
    InvalidValue.requireSize(name, to - from, 8)
    BigEndian.int64(bytes, from)
  }

  /** Reads values as a Spark type; None if that is not possible. */
  final def to(target: DataType, options: ConversionOptions): Option[Conversion] = target match {
    case _: CharType         => None // Spark adds blanks to the values
    case VarcharType(length) => Some(asText(printer(options), length))
    case _: StringType       => Some(asText(printer(options), Int.MaxValue))
    case other               => conversion(other, options)
  }

  /** Reads values as STRING, with at most so many characters. */
  protected def asText(printer: Printer, length: Int): Conversion =
    new StringConversion(printer, length)

  /** The Spark type that values have in a VARIANT. */
  protected def variantType: DataType = sparkType(-1)

  /** Appends values to a VARIANT. */
  def variantValue(options: ConversionOptions): VariantValue =
    new VariantValue(variantType, to(variantType, options).get)

  override def toString: String = name
}

/**
 * Finds the types of the parts of a value, for types whose values name these types by their oids.
 */
trait TypeLookup {

  /**
   * Returns the type with an oid. If neither PostgreSQL nor an option says which type it is, this
   * is a [[PgUnknown]].
   */
  def byOid(oid: Long): PgType

  /**
   * Returns the type of a part of a value. The returned type does not know this oid any more: no type
   * is a part of itself, so damaged bytes that claim it cannot lead to an endless recursion.
   */
  def partByOid(oid: Long): PgType

  /**
   * Returns the type that reads the text of an unknown type as a Spark type; None if there is no
   * such type.
   */
  def ofUnknown(target: DataType): Option[PgType]
}

object TypeLookup {

  /** The values of the option that declares a type, for error messages. */
  val Declarations: String =
    "the name of a base type (as in pg_type.typname), hstore, enum, composite, range:<name of the " +
      "subtype>, multirange:<name of the subtype>, or array:<any of these>"
}

/**
 * A type that is not known. Either the user gave no oid, or PostgreSQL does not fix the meaning of
 * the oid. The latter is so for enums, domains, composite types and the types of extensions.
 *
 * The Spark type that the user asks for decides how text is read. Binary values are read only as
 * BINARY, because their types are not known.
 *
 * @param oid 0 if the user gave none
 */
final class PgUnknown(oid: Long, types: TypeLookup)
    extends PgType(if (oid == 0) "unknown" else s"with oid $oid") {

  override def isKnown: Boolean = false

  override def describe(modifier: Int): String = s"type with oid $oid"

  override def conversion(target: DataType, options: ConversionOptions): Option[Conversion] =
    types.ofUnknown(target).flatMap(_.to(target, options)).map { conversion =>
      new Conversion {
        override def fromText(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit =
          conversion.fromText(bytes, from, to, out)

        override def fromBinary(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit =
          if (target == BinaryType) out.write(bytes, from, to - from) else throw undeclared
      }
    }

  override def printer(options: ConversionOptions): Printer = (_, _, _, _) => throw undeclared

  private def undeclared = new InvalidValue(
    if (oid == 0) "is binary, and its type is not known"
    else s"is binary, and the type with oid $oid is not known",
    if (oid == 0) "give the type_ids"
    else s"use BINARY, or the option type.$oid: ${TypeLookup.Declarations}"
  )
}
