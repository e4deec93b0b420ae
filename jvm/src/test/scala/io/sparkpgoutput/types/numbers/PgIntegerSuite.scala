package io.sparkpgoutput.types.numbers

import java.nio.ByteBuffer

import org.apache.spark.sql.types._

import io.sparkpgoutput.PropertySuite
import io.sparkpgoutput.types.ConversionTests

class PgIntegerSuite extends PropertySuite with ConversionTests {
  import PgInteger._

  private def int8(value: Long) = ByteBuffer.allocate(8).putLong(value).array
  private def int4(value: Long) = ByteBuffer.allocate(4).putInt(value.toInt).array

  test("text and binary give the same number, and the binary one prints as the text") {
    forAll { value: Long =>
      assert(fromText(Int8, LongType, value.toString) == value)
      assert(fromBinary(Int8, LongType, int8(value)) == value)
      assert(fromBinary(Int8, StringType, int8(value)).toString == value.toString)
    }
  }

  test("an oid is read without a sign") {
    assert(fromText(Oid, LongType, "4294967295") == 4294967295L)
    assert(fromBinary(Oid, LongType, int4(-1)) == 4294967295L)
    assert(fromBinary(Oid, StringType, int4(-1)).toString == "4294967295")
  }

  test("a number out of range is refused, with a type that takes it") {
    assert(
      problem(fromText(Int8, ShortType, "32768")) == "is out of range for SMALLINT; use INT"
    )
    assert(
      problem(fromBinary(Int8, IntegerType, int8(1L << 31))) ==
        "is out of range for INT; use BIGINT"
    )
    Seq("9223372036854775808", "-9223372036854775809", "99999999999999999999").foreach { text =>
      assert(problem(fromText(Int8, LongType, text)).startsWith("has more than 64 bits"))
    }
  }

  test("a whole number is read as DECIMAL, DOUBLE or FLOAT if it stays exact") {
    assert(fromText(Int4, DecimalType(5, 2), "-999").toString == "-999.00")
    assert(problem(fromText(Int4, DecimalType(5, 2), "1000")).contains("DECIMAL(5,2)"))
    assert(fromText(Int8, DoubleType, "9007199254740992") == 9007199254740992.0)
    assert(fromText(Int8, DoubleType, Long.MinValue.toString) == Long.MinValue.toDouble)
    assert(problem(fromText(Int8, DoubleType, "9007199254740993")) ==
      "has more digits than DOUBLE keeps; use BIGINT")
    assert(problem(fromText(Int8, DoubleType, Long.MaxValue.toString)).contains("use BIGINT"))
    assert(fromBinary(Int4, FloatType, int4(-(1 << 24))) == -(1 << 24).toFloat)
    assert(problem(fromBinary(Int4, FloatType, int4((1 << 24) + 1))) ==
      "has more digits than FLOAT keeps; use DOUBLE")
  }

  test("text and bytes that are not a number are refused") {
    Seq("", "-", "+1", "1 ", "0x1", "1e3", "--1").foreach { text =>
      assert(problem(fromText(Int4, IntegerType, text)) == "is not a valid int4")
    }
    assert(problem(fromBinary(Int4, IntegerType, int8(1))).contains("has 8 bytes"))
  }
}
