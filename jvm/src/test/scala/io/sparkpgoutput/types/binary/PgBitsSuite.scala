package io.sparkpgoutput.types.binary

import org.apache.spark.sql.types._

import io.sparkpgoutput.PropertySuite
import io.sparkpgoutput.types.ConversionTests

class PgBitsSuite extends PropertySuite with ConversionTests {
  import PgBits._

  test("a single bit is a BOOLEAN") {
    assert(fromText(Bit, BooleanType, "1") == true)
    assert(fromText(Varbit, BooleanType, "0") == false)
    assert(fromBinary(Bit, BooleanType, Array(0, 0, 0, 1, 0x80.toByte)) == true)
    assert(fromBinary(Bit, BooleanType, Array(0, 0, 0, 1, 0)) == false)
  }

  test("a value with another number of bits is refused") {
    Seq("", "10").foreach { text =>
      assert(problem(fromText(Varbit, BooleanType, text)) == "is not a single bit; use STRING")
    }
    assert(problem(fromBinary(Bit, BooleanType, Array(0, 0, 0, 2, 0))).contains("STRING"))
    assert(problem(fromText(Bit, BooleanType, "t")) == "is not a valid bit")
    assert(problem(fromBinary(
      Bit,
      StringType,
      Array(127, -1, -1, -1, 0)
    )) == "is not a valid bit")
  }
}
