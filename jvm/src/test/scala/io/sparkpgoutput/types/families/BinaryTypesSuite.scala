package io.sparkpgoutput.types.families

import org.apache.spark.sql.types._

import io.sparkpgoutput.PropertySuite
import io.sparkpgoutput.types.ConversionTests

class BinaryTypesSuite extends PropertySuite with ConversionTests {
  import PgBits._

  private def read(text: String) =
    fromText(PgBytea, BinaryType, text).asInstanceOf[Array[Byte]].toSeq

  test(
    "hexadecimal, escaped and binary bytea give the same bytes, which are printed as hexadecimal"
  ) {
    forAll { bytes: Array[Byte] =>
      val hex = "\\x" + bytes.map(byte => f"$byte%02x").mkString
      val escaped = bytes.map {
        case '\\'                               => "\\\\"
        case byte if byte >= ' ' && byte <= '~' => byte.toChar.toString
        case byte                               => f"\\${byte & 0xff}%03o"
      }.mkString
      assert(read(hex) == bytes.toSeq)
      assert(read(escaped) == bytes.toSeq)
      assert(fromBinary(PgBytea, BinaryType, bytes).asInstanceOf[Array[Byte]].toSeq == bytes.toSeq)
      assert(fromBinary(PgBytea, StringType, bytes).toString == hex)
    }
  }

  test("bytea text that no server prints is refused") {
    Seq("\\x0", "\\x0g", "\\x-1", "\\", "\\4", "\\400", "\\08a", "a\\12", "ä", "\n").foreach { text =>
      assert(problem(read(text)) == "is not a valid bytea", text)
    }
  }

  test("a single bit is a BOOLEAN") {
    assert(fromText(Bit, BooleanType, "1") == true)
    assert(fromText(Varbit, BooleanType, "0") == false)
    assert(fromBinary(Bit, BooleanType, Array(0, 0, 0, 1, 0x80.toByte)) == true)
    assert(fromBinary(Bit, BooleanType, Array(0, 0, 0, 1, 0)) == false)
  }

  test("no bits or several bits are refused as a BOOLEAN") {
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
