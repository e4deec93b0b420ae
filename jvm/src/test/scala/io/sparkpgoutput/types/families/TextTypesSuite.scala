package io.sparkpgoutput.types.families

import java.nio.charset.StandardCharsets.UTF_8

import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.types._
import io.sparkpgoutput.types.containers.PgArray

class TextTypesSuite extends AnyFunSuite with ConversionTests {
  private val text = new PgText("text")

  test("a text that is longer than its VARCHAR does not fit, and blanks count") {
    def read(value: String) = fromText(text, VarcharType(3), value)
    Seq("", "abc", "ab ", "äöü", "😀😀😀").foreach { value =>
      assert(read(value) == UTF8String.fromString(value))
      assert(fromBinary(
        text,
        VarcharType(3),
        value.getBytes(UTF_8)
      ) == UTF8String.fromString(value))
    }
    Seq("abcd", "abc ", "äöüß", "😀😀😀😀").foreach { value =>
      val refused = "has more than 3 characters; use STRING"
      assert(problem(read(value)) == refused)
      assert(problem(fromBinary(text, VarcharType(3), value.getBytes(UTF_8))) == refused)
    }
  }

  test("a bare byte of PostgreSQL 14 as \"char\" is the text that later versions print") {
    val targets = Seq(StringType, VarcharType(4))
    for (target <- targets; byte <- -128 to -1) {
      val one = Array(byte.toByte)
      val printed = fromBinary(PgChar, target, one)
      assert(printed == UTF8String.fromString(f"\\${byte & 0xff}%o"))
      assert(fromTextBytes(PgChar, target, one) == printed)
    }
    assert(fromText(PgChar, StringType, "a") == UTF8String.fromString("a"))
    assert(fromText(PgChar, StringType, "é") == UTF8String.fromString("é"))
    assert(problem(fromTextBytes(
      PgChar,
      VarcharType(3),
      Array(-1.toByte)
    )).contains("3 characters"))
    val elements = fromTextBytes(
      new PgArray(PgChar, 18),
      ArrayType(StringType),
      "{a,X}".getBytes(UTF_8).map(byte => if (byte == 'X') -23.toByte else byte)
    ).asInstanceOf[ArrayData]
    assert(elements.toSeq[UTF8String](StringType).map(_.toString) == Seq("a", "\\351"))
  }

  test("nothing is read as CHAR, because Spark adds blanks to the values") {
    val targets = Seq(CharType(3), ArrayType(CharType(3)), new StructType().add("a", CharType(3)))
    targets.foreach(target => assert(text.to(target, ConversionOptions()).isEmpty, target))
    assert(text.to(VarcharType(3), ConversionOptions()).nonEmpty)
  }
}
