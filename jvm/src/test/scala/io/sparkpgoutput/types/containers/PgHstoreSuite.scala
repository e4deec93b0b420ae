package io.sparkpgoutput.types.containers

import java.nio.charset.StandardCharsets

import org.apache.spark.sql.catalyst.expressions.UnsafeMapData
import org.apache.spark.sql.types.{IntegerType, MapType, StringType}

import org.scalacheck.Gen

import io.sparkpgoutput.PropertySuite
import io.sparkpgoutput.protocol.TextEncoding
import io.sparkpgoutput.types.{ConversionOptions, ConversionTests, PrintedValues}

class PgHstoreSuite extends PropertySuite with ConversionTests {
  private val mapType = MapType(StringType, StringType)

  private def map(read: Any): Seq[(String, Option[String])] = {
    val pairs = read.asInstanceOf[UnsafeMapData]
    assert(pairs.keyArray.numElements == pairs.numElements)
    (0 until pairs.numElements).map { index =>
      pairs.keyArray.getUTF8String(index).toString ->
        Option(pairs.valueArray.getUTF8String(index)).map(_.toString)
    }
  }

  private def text(pairs: Seq[(String, Option[String])]): String = {
    def quoted(text: String) = "\"" + text.replaceAll("([\"\\\\])", "\\\\$1") + "\""
    pairs
      .map { case (key, value) => s"${quoted(key)}=>${value.fold("NULL")(quoted)}" }
      .mkString(", ")
  }

  private def binary(pairs: Seq[(String, Option[String])]): Array[Byte] = {
    def int4(value: Int) = Array(24, 16, 8, 0).map(shift => (value >> shift).toByte)
    def sized(text: String) = {
      val utf8 = text.getBytes(StandardCharsets.UTF_8)
      int4(utf8.length) ++ utf8
    }
    int4(pairs.size) ++ pairs.flatMap { case (key, value) =>
      sized(key) ++ value.fold(int4(-1))(sized)
    }
  }

  private val word = Gen.stringOf(Gen.oneOf("aN\\\"=>, é語".toSeq))

  private val hstores = Gen.mapOf(Gen.zip(word, Gen.option(word))).map(_.toSeq)

  test("text and binary values give the pairs in the same order") {
    forAll(hstores) { pairs =>
      assert(map(fromText(PgHstore, mapType, text(pairs))) == pairs)
      assert(map(fromBinary(PgHstore, mapType, binary(pairs))) == pairs)
      assert(fromBinary(PgHstore, StringType, binary(pairs)).toString == text(pairs))
    }
  }

  test("a server's values give the same pairs from text and binary") {
    PrintedValues.read("/types/hstore.tsv").foreach { value =>
      val pairs = map(fromBinary(PgHstore, mapType, value.binary))
      assert(map(fromText(PgHstore, mapType, value.text)) == pairs)
      assert(text(pairs) == value.text)
    }
  }

  test("a key that occurs twice is refused, at any position") {
    forAll(hstores.suchThat(_.nonEmpty)) { pairs =>
      val twice = pairs :+ (pairs.head._1 -> None)
      assert(problem(fromText(PgHstore, mapType, text(twice))).startsWith("has a key twice"))
      assert(problem(fromBinary(PgHstore, mapType, binary(twice))).startsWith("has a key twice"))
    }
  }

  test("text that a server does not print is refused") {
    Seq(
      " ",
      "a",
      "a=>1",
      "\"a\"",
      "\"a\"=>",
      "\"a\"=>1",
      "\"a\"=>null",
      "\"a\"=>\"1",
      "\"a\"=>\"1\\",
      "\"a\"=>\"1\",",
      "\"a\"=>\"1\", ",
      "\"a\"=>\"1\",\"b\"=>NULL",
      "\"a\" => \"1\"",
      "\"a\"=>NULLx"
    ).foreach { text =>
      assert(problem(fromText(PgHstore, mapType, text)) == "is not a valid hstore", text)
    }
  }

  test("text in binary values has the encoding of the option") {
    val latin1 = ConversionOptions(encoding = TextEncoding.of("LATIN1").get)
    val sent = Array[Byte](0, 0, 0, 1, 0, 0, 0, 1, 0xe9.toByte, 0, 0, 0, 1, 0xe8.toByte)
    assert(map(fromBinary(PgHstore, mapType, sent, latin1)) == Seq("é" -> Some("è")))
  }

  test("a map of other types, or of values that are NOT NULL, is refused") {
    val none = Seq(
      MapType(StringType, StringType, valueContainsNull = false),
      MapType(StringType, IntegerType)
    )
    none.foreach(target => assert(PgHstore.to(target, ConversionOptions()).isEmpty))
  }
}
