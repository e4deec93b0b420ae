package io.sparkpgoutput.types.catalog

import org.apache.spark.sql.types.{DataType, LongType}

import io.sparkpgoutput.types.numbers.{LongConversion, LongReader, PgInteger}
import io.sparkpgoutput.types.{Conversion, ConversionOptions, InvalidValue, PgType, Printer}

/**
 * The types whose names begin with reg: oids, printed as names. Binary values are the oids only, so
 * that these, as STRING too, are numbers; text is a name, which is a number only where the server
 * knows no name.
 */
final class PgReg(name: String) extends PgType(name) {
  override def conversion(target: DataType, options: ConversionOptions): Option[Conversion] =
    if (target == LongType) LongConversion.toNumber(reader, target) else None

  override def printer(options: ConversionOptions): Printer = PgInteger.Oid.printer(options)

  private object reader extends LongReader {
    override def fromText(bytes: Array[Byte], from: Int, to: Int): Long = {
      val isNumber = from < to && bytes(from) >= '0' && bytes(from) <= '9'
      if (!isNumber) throw new InvalidValue("is a name, not an oid", "use STRING")
      PgInteger.Oid.reader.fromText(bytes, from, to)
    }

    override def fromBinary(bytes: Array[Byte], from: Int, to: Int): Long =
      PgInteger.Oid.reader.fromBinary(bytes, from, to)
  }
}
