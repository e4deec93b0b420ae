package io.sparkpgoutput.types.containers

import java.nio.ByteBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types._

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.types.registry.TypeRegistry
import io.sparkpgoutput.types.{ConversionOptions, ConversionTests, ValueWriter}

class PgCompositeSuite extends AnyFunSuite with ConversionTests {
  private val composite = TypeRegistry().declared("composite").get
  private val target = new StructType().add("a", IntegerType).add("b", StringType)

  private def read(value: Any, struct: StructType = target) =
    value.asInstanceOf[InternalRow].copy().toSeq(struct).map {
      case null  => null
      case other => other.toString
    }

  private def binary(fields: (Int, Array[Byte])*): Array[Byte] = {
    val buffer = ByteBuffer.allocate(4 + fields.map(8 + _._2.length).sum)
    buffer.putInt(fields.length)
    fields.foreach { case (oid, bytes) => buffer.putInt(oid).putInt(bytes.length).put(bytes) }
    buffer.array
  }
  private val one = Array[Byte](0, 0, 0, 1)

  test("fields are read by position, and an empty field is NULL") {
    Map(
      "(1,a)" -> Seq("1", "a"),
      "(,)" -> Seq(null, null),
      "(,\"\")" -> Seq(null, ""),
      "(1,\"a\"\"b\\\\c\\\"\")" -> Seq("1", "a\"b\\c\""),
      "(\"1\",\" (,)\")" -> Seq("1", " (,)"),
      "(1,NULL)" -> Seq("1", "NULL")
    ).foreach { case (text, expected) =>
      assert(read(fromText(composite, target, text)) == expected, text)
    }
    assert(read(fromBinary(
      composite,
      target,
      binary(20 -> (new Array[Byte](4) ++ one), 25 -> one)
    ))
      .head == "1")
  }

  test("a composite type can have no field, or one field") {
    assert(read(fromText(composite, new StructType, "()"), new StructType) == Nil)
    assert(read(fromBinary(composite, new StructType, binary()), new StructType) == Nil)
    val single = new StructType().add("a", IntegerType)
    assert(read(fromText(composite, single, "()"), single) == Seq(null))
    assert(read(fromText(composite, single, "(1)"), single) == Seq("1"))
  }

  test("a number in a text is refused as FLOAT or DOUBLE if they cannot keep it") {
    def attempted(ddl: String, text: String) = {
      val struct = StructType.fromDDL(s"a $ddl")
      attempt(read(fromText(composite, struct, s"($text)"), struct).head)
    }
    Seq(
      ("DOUBLE", "0.1", 0.1),
      ("DOUBLE", "0.10", 0.1),
      ("DOUBLE", "123456789.01234567", 123456789.01234567),
      ("DOUBLE", "9007199254740992", 9007199254740992.0),
      (
        "DOUBLE",
        "1152921504606846976",
        1152921504606846976.0
      ), // its shortest text has fewer digits
      ("DOUBLE", "-1.7976931348623157e+308", -Double.MaxValue),
      ("DOUBLE", "5e-324", Double.MinPositiveValue),
      ("DOUBLE", "-0", -0.0),
      ("DOUBLE", "0.00000000000000000000", 0.0),
      ("DOUBLE", "NaN", Double.NaN),
      ("FLOAT", "0.1", 0.1f),
      ("FLOAT", "16777217.0", null),
      ("FLOAT", "16777216", 16777216f),
      ("FLOAT", "3.4028235e+38", Float.MaxValue),
      ("FLOAT", "1e-45", java.lang.Float.MIN_VALUE),
      ("FLOAT", "-Infinity", Float.NegativeInfinity),
      ("FLOAT", "0.1234567890123", null),
      ("FLOAT", "1.2e-45", null),
      ("DOUBLE", "9007199254740993", null),
      ("DOUBLE", "0.12345678901234567891", null),
      ("DOUBLE", "1e-400", null)
    ).foreach {
      case (ddl, text, null) =>
        val refused = attempted(ddl, text).left.getOrElse(fail(text))
        assert(
          refused == s"has a number with more digits than $ddl keeps; use DECIMAL or STRING there"
        )
      case (ddl, text, value) => assert(attempted(ddl, text) == Right(value.toString), text)
    }
    Seq(
      "a ARRAY<DOUBLE>" -> "(\"{9007199254740993}\")",
      "a STRUCT<b: DOUBLE>" -> "(\"(9007199254740993)\")",
      "a STRUCT<lower: DOUBLE, upper: DOUBLE, lower_inclusive: BOOLEAN, upper_inclusive: BOOLEAN, " +
        "empty: BOOLEAN>" -> "(\"[9007199254740993,)\")"
    ).foreach { case (ddl, text) =>
      assert(problem(fromText(composite, StructType.fromDDL(ddl), text)).contains("digits"), ddl)
    }
  }

  test("another number of fields than that of the STRUCT is refused") {
    Seq("(1)" -> "1", "(1,2,3)" -> "more than 2", "()" -> "1").foreach { case (text, number) =>
      assert(
        problem(fromText(composite, target, text)) ==
          s"has $number fields, the STRUCT has 2; use STRING"
      )
    }
    assert(problem(fromBinary(composite, target, binary())).startsWith("has 0 fields"))
  }

  test("text and bytes that are not a composite value are refused") {
    Seq(
      "",
      "(",
      "1,2",
      "(1,2",
      "(1,2)x",
      "(1,\"2)",
      "(1,\"2\"3)",
      "(1,2\"3\")",
      "(1,2\\)",
      "(1,(2))"
    )
      .foreach { text =>
        assert(
          problem(fromText(composite, target, text)) == "is not a valid composite",
          text
        )
      }
    Seq(
      Array.emptyByteArray,
      Array[Byte](127, -1, -1, -1),
      Array[Byte](-1, -1, -1, -1),
      binary(23 -> one, 25 -> one).dropRight(1),
      binary(23 -> one, 25 -> one) :+ 0.toByte
    ).foreach { bytes =>
      Seq(target, StringType).foreach { spark =>
        assert(problem(fromBinary(composite, spark, bytes)) == "is not a valid composite")
      }
    }
  }

  test("a binary field of an unknown type is refused unless it is read as BINARY") {
    val bytes = binary(23 -> one, 99999 -> one)
    Seq(target, StringType).foreach { spark =>
      val found = problem(fromBinary(composite, spark, bytes))
      assert(
        found.startsWith("is binary, and the type with oid 99999 is not known; use BINARY, or")
      )
      assert(found.contains("the option type.99999"))
    }
    val raw = new StructType().add("a", IntegerType).add("b", BinaryType)
    val read = fromBinary(composite, raw, bytes).asInstanceOf[InternalRow]
    assert(read.getBinary(1).toSeq == one.toSeq)
  }

  test(
    "a binary field that cannot be read as the type in the STRUCT is refused, with a type that fits"
  ) {
    assert(
      problem(fromBinary(composite, target, binary(16 -> Array[Byte](1), 25 -> one))) ==
        "has type bool in field 1, which cannot be read as INT; use BOOLEAN there"
    )
  }

  test("the type of a binary field can change from value to value") {
    val conversion = composite.to(target, ConversionOptions()).get
    val writer = new org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter(1)
    val slot = new ValueWriter(writer, target, 0)
    Seq(23 -> one, 20 -> (new Array[Byte](4) ++ one), 21 -> one.drop(2), 23 -> one).foreach {
      field =>
        writer.reset()
        writer.zeroOutNullBytes()
        val bytes = binary(field, 25 -> "x".getBytes)
        conversion.fromBinary(bytes, 0, bytes.length, slot)
        assert(read(writer.getRow.getStruct(0, 2)) == Seq("1", "x"))
    }
  }

  test("a STRUCT with a field that is NOT NULL is refused") {
    val never = new StructType().add("a", IntegerType, nullable = false)
    assert(composite.to(never, ConversionOptions()).isEmpty)
  }

  test("bytes that nest a type in itself without end are refused") {
    val types = TypeRegistry(Map(20000L -> "composite", 20001L -> "array:composite"))
    val depth = 50000
    val nested = ByteBuffer.allocate(12 * depth + 4)
    (depth to 1 by -1).foreach(level => nested.putInt(1).putInt(20000).putInt(12 * level - 8))
    nested.putInt(0)
    assert(problem(fromBinary(types.byOid(20000), StringType, nested.array)).contains("20000"))
  }
}
