package io.sparkpgoutput.types.families

import java.nio.charset.StandardCharsets
import java.time.ZoneOffset

import org.apache.spark.sql.types.{StringType, VariantType}
import org.apache.spark.types.variant.{Variant, VariantUtil}
import org.apache.spark.unsafe.types.VariantVal

import org.scalacheck.{Arbitrary, Gen}

import io.sparkpgoutput.types.{ConversionTests, InvalidValue, PrintedValues}
import io.sparkpgoutput.{PropertySuite, TakesLong}

class JsonTypesSuite extends PropertySuite with ConversionTests {
  import PgJson._

  private def variant(json: String) = fromText(Json, VariantType, json).asInstanceOf[VariantVal]
  private def printed(json: String) = variant(json).toJson(ZoneOffset.UTC)

  /** The number in the VARIANT of a document. It must be an exact number. */
  private def number(json: String): BigDecimal = {
    val value = variant(json)
    val read = new Variant(value.getValue, value.getMetadata)
    read.getType match {
      case VariantUtil.Type.LONG    => BigDecimal(read.getLong)
      case VariantUtil.Type.DECIMAL => BigDecimal(read.getDecimal)
      case other                    => fail(s"$json is $other")
    }
  }

  private def binary(json: String) = 1.toByte +: json.getBytes(StandardCharsets.UTF_8)

  test("text and binary give the same VARIANT, and json the same as jsonb") {
    val documents = PrintedValues.read("/types/text.tsv").filter(_.typeName == "jsonb")
    documents.foreach { document =>
      val expected = variant(document.text)
      assert(fromText(Jsonb, VariantType, document.text) == expected)
      assert(fromBinary(Jsonb, VariantType, document.binary) == expected)
      assert(fromBinary(Json, VariantType, document.binary.tail) == expected)
    }
    assert(documents.nonEmpty)
  }

  test("a VARIANT has all of a document") {
    assert(
      printed("{\"b\":[1,-2.5,\"x\\n\\u00e9\\ud83d\\ude00\",true,null,{}],\"a\":{\"\":[]}}") ==
        """{"a":{"":[]},"b":[1,-2.5,"x\né😀",true,null,{}]}"""
    )
  }

  test("if a key occurs twice, the last value counts") {
    assert(printed("""{"a":1,"b":2,"a":[3]}""") == """{"a":[3],"b":2}""")
  }

  test("numbers of up to 38 digits are kept exactly, however they are written") {
    val numbers = for {
      digits <- Gen.chooseNum(1, 38)
      unscaled <- Gen.listOfN(digits, Gen.numChar).map(chars => BigInt(chars.mkString))
      sign <- Gen.oneOf(1, -1)
      scale <- Gen.chooseNum(0, 38)
    } yield new java.math.BigDecimal((unscaled * sign).bigInteger, scale)
    forAll(numbers) { exact =>
      assert(number(exact.toPlainString) == BigDecimal(exact))
      assert(number(s"${exact.unscaledValue}e-${exact.scale}") == BigDecimal(exact))
    }
    forAll { exact: Long => assert(number(exact.toString) == BigDecimal(exact)) }
  }

  test("trailing zeros and exponents do not count as digits") {
    assert(number("1.5e3") == 1500)
    assert(number("1E+37") == BigDecimal(10).pow(37))
    assert(number("1." + "0" * 100) == 1)
    assert(number("0e99") == 0)
  }

  test("a number that would be rounded is refused") {
    Seq("1e38", "1" * 39, "0." + "1" * 39, "1e-39", "1e400", "1e99999999999", "-1e-99999999999")
      .foreach { json =>
        assert(
          problem(variant(s"[$json]")) == "has a number of more than 38 digits; use STRING"
        )
      }
  }

  test("half a surrogate pair is refused, in strings and keys") {
    Seq("[\"\\ud800\"]", "[\"\\udc00x\"]", "[\"\\ud800\\ud800\"]", "{\"\\ud800\":1}").foreach {
      json => assert(problem(variant(json)).startsWith("has half a surrogate pair"))
    }
  }

  test("text that is not JSON is refused") {
    val broken = Seq("", " ", "{", "[1,]", "nul", "1 2", "{} x", "01", "+1", "NaN", "'a'", "\u0000")
    broken.foreach { json =>
      assert(problem(variant(json)) == "is not a valid json; use STRING", json)
    }
    assert(problem(fromBinary(
      Jsonb,
      VariantType,
      binary("{")
    )).startsWith("is not a valid jsonb"))
  }

  test("a document too deep or too large is refused", TakesLong) {
    val deep = "[" * 100000 + "]" * 100000
    assert(problem(variant(deep)) == "has parts too long or too deep for VARIANT; use STRING")
    assert(problem(variant("1" * 100000)).endsWith("use STRING"))
    val string = "\"" + "x" * 1000000 + "\""
    val large = Seq.fill(VariantUtil.SIZE_LIMIT / 1000000 + 1)(string).mkString("[", ",", "]")
    assert(problem(variant(large)) == "is too large for VARIANT; use STRING")
  }

  test("damaged documents are read or refused, and never fail otherwise") {
    val document =
      "{\"a\":[1.5e3,\"\\u00e9\\ud83d\\ude00\",null],\"b\":{\"c\":-12345678901234567890.5}}"
    forAll(Gen.chooseNum(0, document.length), Arbitrary.arbitrary[Char], Gen.chooseNum(0, 2)) {
      (at, other, skip) =>
        try variant(document.take(at) + other + document.drop(at + skip))
        catch { case _: InvalidValue => }
    }
  }

  test("a document that is read as STRING stays as it is printed") {
    val json = """{"b" : 1.50, "b":[]}"""
    assert(fromText(Json, StringType, json).toString == json)
    assert(fromBinary(Jsonb, StringType, binary(json)).toString == json)
  }
}
