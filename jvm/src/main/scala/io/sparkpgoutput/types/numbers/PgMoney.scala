package io.sparkpgoutput.types.numbers

import org.apache.spark.sql.types.{DataType, DecimalType}

import io.sparkpgoutput.types._

/**
 * money. The binary value is an int64, the amount in the currency's minor units.
 *
 * The text depends on `lc_monetary`: `-$1,234.56`, `($1,234.56)`, `1.234,56 €`, `¥1,234`. Its digits
 * are always the amount in minor units, and a minus sign or a parenthesis makes it negative
 * (`cash_out` in `src/backend/utils/adt/cash.c`). The option moneyScale says how many of the digits
 * are after the point, for text and binary values.
 */
object PgMoney extends PgType("money") {
  override def sparkType(modifier: Int): DataType = DecimalType(19, 2)

  override def conversion(target: DataType, options: ConversionOptions): Option[Conversion] =
    NumberConversion.of(new MoneyReader(options.moneyScale), target)

  /** Prints the plain number, because the locale is not known. */
  override def printer(options: ConversionOptions): Printer = new MoneyReader(options.moneyScale)

  final private class MoneyReader(scale: Int) extends DecimalReader {
    private val number = new DecimalNumber

    override def fromText(bytes: Array[Byte], from: Int, to: Int): DecimalNumber = {
      var magnitude = 0L
      var digits = false
      var negative = false
      var at = from
      while (at < to) {
        val byte = bytes(at)
        if (byte >= '0' && byte <= '9') {
          if (!PowersOfTen.hasDigits(magnitude, 18)) throw malformed
          magnitude = magnitude * 10 + (byte - '0')
          digits = true
        } else if (byte == '-' || byte == '(' || isMinusSign(bytes, at, to)) negative = true
        at += 1
      }
      // More than 2^63 becomes positive with the sign, and from 2^63 on is negative without it.
      val fits = if (negative) -magnitude <= 0 else magnitude >= 0
      if (!digits || !fits) throw malformed
      number.set(negative, magnitude, -scale)
    }

    /** Returns whether this is U+2212, the minus sign of some locales. */
    private def isMinusSign(bytes: Array[Byte], at: Int, to: Int): Boolean =
      bytes(at) == 0xe2.toByte && to - at >= 3 && bytes(at + 1) == 0x88.toByte &&
        bytes(at + 2) == 0x92.toByte

    override def fromBinary(bytes: Array[Byte], from: Int, to: Int): DecimalNumber = {
      val value = int64(bytes, from, to)
      // The magnitude of the least number has 64 bits, without a sign.
      number.set(value < 0, if (value < 0) -value else value, -scale)
    }

    override def print(bytes: Array[Byte], from: Int, to: Int, out: TextBuffer): Unit =
      out.decimal(int64(bytes, from, to), scale)
  }
}
