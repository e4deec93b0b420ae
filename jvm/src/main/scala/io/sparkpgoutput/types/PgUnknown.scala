package io.sparkpgoutput.types

import org.apache.spark.sql.types._

/**
 * A type that is not known: no oid was given, or one that PostgreSQL does not fix, as those of
 * enums, domains, composite types and of extensions. Text is read by the type that is asked for;
 * binary values only as BINARY, for nothing tells what they are.
 *
 * @param oid
 *   0 where none was given
 */
final class PgUnknown(oid: Long) extends PgType {
  override def name: String = if (oid == 0) "unknown" else s"with oid $oid"

  override def conversion(target: DataType, options: ConversionOptions): Option[Conversion] =
    textType(target).flatMap(_.to(target, options)).map { conversion =>
      new Conversion {
        override def fromText(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit =
          conversion.fromText(bytes, from, to, out)

        override def fromBinary(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit =
          if (target == BinaryType) out.write(bytes, from, to - from) else throw undeclared
      }
    }

  override def printer(options: ConversionOptions): Printer = (_, _, _, _) => throw undeclared

  /** The type whose text it is read as. */
  private def textType(target: DataType): Option[PgType] = target match {
    case BooleanType                                       => Some(PgBoolean)
    case ByteType | ShortType | IntegerType | LongType     => Some(PgInteger.Int8)
    case FloatType                                         => Some(PgFloat.Float4)
    case DoubleType                                        => Some(PgFloat.Float8)
    case _: DecimalType                                    => Some(PgNumeric)
    case DateType                                          => Some(PgDate)
    case TimestampType                                     => Some(PgTimestamp.Timestamptz)
    case TimestampNTZType                                  => Some(PgTimestamp.Timestamp)
    case _: DayTimeIntervalType | _: YearMonthIntervalType => Some(PgInterval)
    case BinaryType                                        => Some(PgBytea)
    case _: ArrayType                                      => Some(new PgArray(new PgUnknown(0), 0))
    case struct: StructType if PgRange.isRange(struct) =>
      Some(new PgRange("range", new PgUnknown(0)))
    case _: StructType => Some(PgComposite)
    case _: MapType    => Some(PgHstore)
    case _             => None
  }

  private def undeclared = new InvalidValue(
    if (oid == 0) "is binary, and its type is not known"
    else s"is binary, and the type with oid $oid is not known",
    if (oid == 0) "give the type_ids"
    else s"use BINARY, or the option type.$oid: ${PgTypes.declarations}"
  )
}
