package io.sparkpgoutput.types.registry

import org.apache.spark.sql.types._

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.types.{ConversionOptions, ConversionTests, TypeLookup}

class PgUnknownSuite extends AnyFunSuite with ConversionTests {
  private val unknown = TypeRegistry().byOid(16400)
  private val texts: Seq[(DataType, String, Any)] = Seq(
    (BooleanType, "t", true),
    (ByteType, "-128", -128.toByte),
    (ShortType, "32767", 32767.toShort),
    (IntegerType, "7", 7),
    (LongType, "9223372036854775807", Long.MaxValue),
    (FloatType, "0.1", 0.1f),
    (DoubleType, "0.1", 0.1),
    (DecimalType(5, 2), "1.5", Decimal(BigDecimal("1.50"), 5, 2)),
    (DateType, "1970-01-02", 1),
    (TimestampType, "1970-01-01 00:00:00.000001+00", 1L),
    (TimestampNTZType, "1970-01-01 00:00:01", 1000000L),
    (DayTimeIntervalType(), "1 day", 86400000000L),
    (YearMonthIntervalType(), "1 year 2 mons", 14)
  )
  private val composed = Seq(
    ArrayType(ArrayType(IntegerType)) -> "{{1,NULL}}",
    new StructType().add(
      "a",
      IntegerType
    ).add("b", ArrayType(StringType)) -> "(1,\"{a,\"\"b c\"\"}\")",
    DataType.fromDDL(
      "lower DATE, upper DATE, lower_inclusive BOOLEAN, upper_inclusive BOOLEAN, empty BOOLEAN"
    ) -> "[2024-01-01,)",
    MapType(StringType, StringType) -> "\"a\"=>NULL"
  )
  private val undeclared =
    "is binary, and the type with oid 16400 is not known; use BINARY, or the " +
      "option type.16400: " + TypeLookup.Declarations

  test("text of an unknown type is read as the Spark type says") {
    texts.foreach { case (target, text, value) =>
      assert(fromText(unknown, target, text) == value, target)
      problem(fromText(unknown, target, "no value"))
    }
    composed.foreach { case (target, text) =>
      assert(fromText(unknown, target, text) != null, target)
      problem(fromText(unknown, target, "no value"))
    }
    assert(fromText(unknown, StringType, "any").toString == "any")
  }

  test("text is read as BINARY in both formats of bytea") {
    def bytes(value: Any) = value.asInstanceOf[Array[Byte]].toSeq
    assert(bytes(fromText(unknown, BinaryType, "\\x00ff")) == Seq(0.toByte, -1.toByte))
    assert(bytes(fromText(unknown, BinaryType, "\\x")) == Nil)
    assert(bytes(fromText(unknown, BinaryType, "a\\\\\\377")) == Seq(
      'a'.toByte,
      '\\'.toByte,
      -1.toByte
    ))
  }

  test("binary values are read only as BINARY") {
    val value = Array[Byte](1, 2)
    assert(fromBinary(unknown, BinaryType, value).asInstanceOf[Array[Byte]].toSeq == value.toSeq)
    (StringType +: (texts.map(_._1) ++ composed.map(_._1))).foreach { target =>
      assert(problem(fromBinary(unknown, target, value)) == undeclared, target)
      assert(
        problem(fromBinary(TypeRegistry().byOid(0), target, value)) ==
          "is binary, and its type is not known; give the type_ids"
      )
    }
  }

  test("text of an unknown type is not read as some Spark types") {
    Seq(
      VariantType,
      NullType,
      CalendarIntervalType,
      MapType(StringType, IntegerType),
      ArrayType(VariantType),
      new StructType().add("a", NullType)
    ).foreach(target => assert(unknown.to(target, ConversionOptions()).isEmpty, target))
  }
}
