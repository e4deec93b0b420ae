package io.sparkpgoutput.types.numbers

import java.nio.ByteBuffer

import org.apache.spark.sql.types._

import io.sparkpgoutput.PropertySuite
import io.sparkpgoutput.types.{ConversionOptions, ConversionTests}

class PgMoneySuite extends PropertySuite with ConversionTests {
  private def sent(minorUnits: Long) = ByteBuffer.allocate(8).putLong(minorUnits).array
  private def read(text: String) = fromText(PgMoney, DecimalType(19, 2), text).toString

  test("the text can have the format of any locale") {
    Seq(
      "-$1,234.56",
      "($1,234.56)",
      "-1.234,56 €",
      "1 234,56- kr",
      "\u22121234.56",
      "-Rs.1,234.56",
      "-1’234.56 CHF"
    ).foreach(text => assert(read(text) == "-1234.56", text))
    Seq("$1,234.56", "1.234,56 €", "£1,234.56").foreach(text => assert(read(text) == "1234.56"))
    assert(read("-$92,233,720,368,547,758.08") == "-92233720368547758.08")
  }

  test("text and binary give the same amount, with the option's digits after the point") {
    forAll { minorUnits: Long =>
      Seq(0, 2, 3).foreach { scale =>
        val options = ConversionOptions(moneyScale = scale)
        val target = DecimalType(22, scale)
        val plain = java.math.BigDecimal.valueOf(minorUnits, scale).toPlainString
        val text = "$" + minorUnits.toString
        assert(fromText(PgMoney, target, text, options).toString == plain)
        assert(fromBinary(PgMoney, target, sent(minorUnits), options).toString == plain)
        assert(fromBinary(PgMoney, StringType, sent(minorUnits), options).toString == plain)
        assert(fromText(PgMoney, DoubleType, text, options) == plain.toDouble)
      }
    }
  }

  test("whole numbers and narrow decimals are exact") {
    assert(fromText(PgMoney, IntegerType, "$12.00") == 12)
    assert(problem(fromBinary(PgMoney, IntegerType, sent(1234))) ==
      "is not a whole number; use DECIMAL(4,2) or STRING")
    assert(fromBinary(PgMoney, DecimalType(3, 1), sent(1230)).toString == "12.3")
    assert(problem(fromText(PgMoney, DecimalType(3, 1), "$12.34")).contains("DECIMAL(4,2)"))
  }

  test("text with no digits or too many is refused") {
    Seq("", "$", "-", "$92,233,720,368,547,758.08", "$10,000,000,000,000,000,000.00").foreach {
      text =>
        assert(problem(read(text)) == "is not a valid money", text)
    }
  }
}
