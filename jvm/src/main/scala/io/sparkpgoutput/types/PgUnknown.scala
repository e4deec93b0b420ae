package io.sparkpgoutput.types

import org.apache.spark.sql.types.{BinaryType, DataType}

/**
 * A type that is not known. Either the user gave no oid, or PostgreSQL does not fix the meaning of
 * the oid. The latter is so for enums, domains, composite types and the types of extensions.
 *
 * The Spark type that the user asks for decides how text is read. Binary values are read only as
 * BINARY, because nothing tells what they are.
 *
 * @param oid 0 if the user gave none
 */
final class PgUnknown(oid: Long, types: TypeLookup)
    extends PgType(if (oid == 0) "unknown" else s"with oid $oid") {

  override def isKnown: Boolean = false

  override def describe(modifier: Int): String = s"type with oid $oid"

  override protected def conversion(
      target: DataType,
      options: ConversionOptions
  ): Option[Conversion] =
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
