package io.sparkpgoutput.types.binary

import org.apache.spark.sql.types.{BooleanType, DataType}

import io.sparkpgoutput.types._

/** bool. The text is `t` or `f`. This also reads true, false, 1 and 0, as a server does. */
object PgBoolean extends PgType("bool") {
  override def sparkType(modifier: Int): DataType = BooleanType
  override def readsUnknown(target: DataType): Boolean = target == BooleanType

  override def conversion(target: DataType, options: ConversionOptions): Option[Conversion] =
    Option.when(target == BooleanType)(new Conversion {
      override def fromText(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit =
        out.write(parse(bytes, from, to))

      override def fromBinary(bytes: Array[Byte], from: Int, to: Int, out: ValueWriter): Unit =
        out.write(read(bytes, from, to))
    })

  override def printer(options: ConversionOptions): Printer = (bytes, from, to, out) =>
    out.add(if (read(bytes, from, to)) 't' else 'f')

  private def read(bytes: Array[Byte], from: Int, to: Int): Boolean = {
    InvalidValue.requireSize(name, to - from, 1)
    bytes(from) != 0
  }

  private def parse(bytes: Array[Byte], from: Int, to: Int): Boolean =
    if (to - from == 1) {
      bytes(from) match {
        case 't' | '1' => true
        case 'f' | '0' => false
        case _         => throw InvalidValue.malformed(name)
      }
    } else if (Ascii.equal(bytes, from, to, "true")) true
    else if (Ascii.equal(bytes, from, to, "false")) false
    else throw InvalidValue.malformed(name)
}
