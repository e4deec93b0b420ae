package io.sparkpgoutput.types.catalog

import org.apache.spark.sql.types.{DataType, LongType}

import io.sparkpgoutput.types._
import io.sparkpgoutput.types.numbers.{LongReader, NumberConversion, PgInteger}

/**
 * The types whose names begin with reg: oids that print as names. A binary value is only the oid, so
 * that it is a number even as STRING. A text is the name, or a number if the server knows no name.
 */
final class PgReg(name: String) extends PgType(name) {
  override def conversion(target: DataType, options: ConversionOptions): Option[Conversion] =
    if (target == LongType) NumberConversion.of(reader, target) else None

  override def printer(options: ConversionOptions): Printer = PgInteger.Oid.printer(options)

  private val reader = new LongReader {
    override def fromText(bytes: Array[Byte], from: Int, to: Int): Long = {
      val isNumber = from < to && bytes(from) >= '0' && bytes(from) <= '9'
      if (!isNumber) throw new InvalidValue("is a name, not an oid", "use STRING")
      PgInteger.Oid.reader.fromText(bytes, from, to)
    }

    override def fromBinary(bytes: Array[Byte], from: Int, to: Int): Long =
      PgInteger.Oid.reader.fromBinary(bytes, from, to)
  }
}
