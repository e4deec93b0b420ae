package io.sparkpgoutput.types.binary

import org.apache.spark.sql.types._

import io.sparkpgoutput.PropertySuite
import io.sparkpgoutput.types.ConversionTests

class PgByteaSuite extends PropertySuite with ConversionTests {
  private def read(text: String) =
    fromText(PgBytea, BinaryType, text).asInstanceOf[Array[Byte]].toSeq

  test(
    "hexadecimal text, escapes and binary give the same bytes, which are printed as hexadecimal"
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

  test("text that no server prints is refused") {
    Seq("\\x0", "\\x0g", "\\x-1", "\\", "\\4", "\\400", "\\08a", "a\\12", "ä", "\n").foreach { text =>
      assert(problem(read(text)) == "is not a valid bytea", text)
    }
  }
}
