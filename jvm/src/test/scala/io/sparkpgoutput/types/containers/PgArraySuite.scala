package io.sparkpgoutput.types.containers

import java.lang.management.ManagementFactory
import java.nio.ByteBuffer

import org.apache.spark.sql.catalyst.util.ArrayData
import org.apache.spark.sql.types._
import org.apache.spark.types.variant.Variant
import org.apache.spark.unsafe.types.VariantVal

import com.sun.management.ThreadMXBean
import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.types.registry.{BuiltInTypes, TypeRegistry}
import io.sparkpgoutput.types.{ConversionOptions, ConversionTests, InfinityMode}

class PgArraySuite extends AnyFunSuite with ConversionTests {
  private val int4s = BuiltInTypes.byOid(1007)
  private val texts = BuiltInTypes.byOid(1009)
  private val numerics = BuiltInTypes.byOid(1231)
  private val ints = ArrayType(IntegerType)

  private def list(read: Any, element: DataType): Seq[Any] =
    read.asInstanceOf[ArrayData].toSeq[Any](element).map {
      case null  => null
      case value => value.toString
    }

  private def binary(values: Int*): Array[Byte] = {
    val buffer = ByteBuffer.allocate(4 * values.length)
    values.foreach(buffer.putInt)
    buffer.array
  }

  private def variant(read: Any): String = {
    val value = read.asInstanceOf[VariantVal]
    new Variant(value.getValue, value.getMetadata).toJson(java.time.ZoneOffset.UTC)
  }

  test("text can have quotes, backslashes, and NULL in any case") {
    val read =
      fromText(texts, ArrayType(StringType), """{a,NULL,"NULL",null,"","\"\\a, }{",NULLs}""")
    assert(list(read, StringType) == Seq("a", null, "NULL", null, "", "\"\\a, }{", "NULLs"))
  }

  test("dimensions become nested arrays, and lower bounds are dropped") {
    val read = fromText(int4s, ArrayType(ints), "[-1:0][2:4]={{1,2,3},{4,NULL,6}}")
    val rows = read.asInstanceOf[ArrayData]
    assert(list(rows.getArray(0), IntegerType) == Seq("1", "2", "3"))
    assert(list(rows.getArray(1), IntegerType) == Seq("4", null, "6"))
  }

  test("an array in a key must have the lower bounds 1, so that different keys stay different") {
    val ofKey = ConversionOptions().ofKey
    assert(list(fromText(int4s, ints, "{1,2}", ofKey), IntegerType) == Seq("1", "2"))
    assert(fromText(int4s, ints, "{}", ofKey).asInstanceOf[ArrayData].numElements() == 0)
    assert(problem(fromText(int4s, ints, "[0:1]={1,2}", ofKey)).contains("use STRING"))
    val bytes = binary(1, 0, 23, 1, 0, 4, 7)
    assert(problem(fromBinary(int4s, ints, bytes, ofKey)).contains("part of a key"))
  }

  test("an empty array can be read with any number of dimensions") {
    Seq(ints, ArrayType(ints)).foreach { target =>
      assert(fromText(int4s, target, "{}").asInstanceOf[ArrayData].numElements() == 0)
      assert(fromBinary(int4s, target, binary(0, 0, 23)).asInstanceOf[ArrayData].numElements() == 0)
    }
  }

  test("another number of dimensions is refused, with the type that takes it") {
    val twice = binary(2, 0, 23, 1, 1, 1, 1, 4, 7)
    val expected = "has 2 dimensions, ARRAY<INT> takes 1; use ARRAY<ARRAY<INT>>"
    assert(problem(fromText(int4s, ints, "{{7}}")) == expected)
    assert(problem(fromBinary(int4s, ints, twice)) == expected)
  }

  test("text that is not an array is refused") {
    Seq(
      "",
      "{",
      "}",
      "1",
      "{1",
      "{1}}",
      "{1}x",
      "{,}",
      "{1,}",
      "{,1}",
      "{ 1}",
      "{1 }",
      "{1, 2}",
      "{{1},2}",
      "{1,{2}}",
      "{{1},{2,3}}",
      "{{},{}}",
      "{{{1}},{2}}",
      "{\"1\"2}",
      "{1\"2\"}",
      "{\"1}",
      "{\"1\\",
      "{\"1\\\"",
      "{a\\b}",
      "{{{{{{{1}}}}}}}",
      "[0:1]={1}",
      "[0:0]={}",
      "[0:0]={{1}}",
      "[0:0][0:0]={1}",
      "[0]={1}",
      "[0:0]{1}",
      "[0:0",
      "[0:0]=",
      "[:]={1}",
      "[4294967297:4294967297]={1}",
      "[1:0]={1}",
      "[0:0][0:0][0:0][0:0][0:0][0:0][0:0]={{{{{{1}}}}}}"
    ).foreach { text =>
      Seq(ArrayType(StringType), VariantType).foreach { target =>
        assert(problem(fromText(texts, target, text)) == "is not a valid text[]", text)
      }
    }
  }

  test("counts that are too great for the value are refused before memory is allocated") {
    val threads = ManagementFactory.getThreadMXBean.asInstanceOf[ThreadMXBean]
    val before = threads.getCurrentThreadAllocatedBytes
    val most = Int.MaxValue
    Seq(
      binary(most, 0, 23),
      binary(-1, 0, 23),
      binary(7, 0, 23, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 4, 7),
      binary(1, 0, 23, most, 1, -1),
      binary(1, 0, 23, -1, 1, -1),
      binary(1, 0, 23, 0, 1),
      binary(2, 0, 23, 1 << 16, 1, 1 << 16, 1, -1),
      binary(2, 0, 23, most, 1, most, 1, -1),
      binary(6, 0, 23, most, 1, most, 1, most, 1, most, 1, most, 1, most, 1, -1),
      binary(4, 0, 23, 1 << 16, 1, 1 << 16, 1, 1 << 16, 1, 1 << 16, 1),
      binary(1, 0, 23, 1, 1, most, 7),
      binary(1, 0, 23, 1, 1, -2, 7),
      binary(1, 2, 23, 1, 1, 4, 7),
      binary(1, 0, 23, 1, 1, 4, 7, 7),
      binary(0, 0, 23, 7)
    ).foreach { bytes =>
      Seq(ints, StringType, VariantType).foreach { target =>
        assert(problem(fromBinary(int4s, target, bytes)).startsWith("is not a valid int4[]"))
      }
    }
    assert(threads.getCurrentThreadAllocatedBytes - before < (16 << 20))
  }

  test("elements of another type are refused") {
    val wrong = binary(1, 0, 25, 1, 1, 4, 7)
    assert(
      problem(fromBinary(int4s, ints, wrong)) ==
        "has elements of the type with oid 25, int4[] has 23"
    )
  }

  test("an ARRAY whose elements are NOT NULL is refused") {
    Seq(ArrayType(IntegerType, containsNull = false), ArrayType(ArrayType(IntegerType, false)))
      .foreach(target => assert(int4s.to(target, ConversionOptions()).isEmpty))
  }

  test("a VARIANT has the values of the elements") {
    val read = fromText(numerics, VariantType, "{{1.50,NULL},{-2,0.00000001}}")
    assert(
      variant(read) == "[[1.5,null],[-2,0.00000001]]" || variant(read) == "[[1.50,null],[-2,1E-8]]"
    )
    assert(variant(fromText(
      BuiltInTypes.byOid(3807),
      VariantType,
      """{"{\"a\": [1]}",NULL,"null"}"""
    )) ==
      """[{"a":[1]},null,null]""")
    assert(variant(fromText(texts, VariantType, "{}")) == "[]")
  }

  test("numbers that a VARIANT's decimal cannot hold are refused") {
    Seq("NaN", "Infinity", "1" * 39, "0." + "0" * 38 + "1", "1" * 2000000, "1e5").foreach { number =>
      assert(problem(fromText(numerics, VariantType, s"{$number}")).endsWith("use ARRAY<STRING>"))
    }
  }

  test("an array of each type can be read as VARIANT") {
    (BuiltInTypes.all.map(_.pgType) ++ Seq(
      "hstore",
      "enum",
      "composite"
    ).flatMap(TypeRegistry().declared(_)))
      .foreach { element =>
        val array = new PgArray(element, 0)
        assert(variant(fromText(array, VariantType, "{NULL}")) == "[null]", element)
      }
    val hstores = TypeRegistry().declared("array:hstore").get
    assert(variant(fromText(
      hstores,
      VariantType,
      "{\"\\\"a\\\"=>NULL\"}"
    )) == "[\"\\\"a\\\"=>NULL\"]")
  }

  test("the option infinity applies to the elements") {
    val dates = BuiltInTypes.byOid(1182)
    val nulls = ConversionOptions(infinity = InfinityMode.Null)
    assert(list(fromText(dates, ArrayType(DateType), "{infinity}", nulls), DateType) == Seq(null))
    assert(variant(fromText(dates, VariantType, "{infinity}", nulls)) == "[null]")
    assert(problem(fromText(dates, VariantType, "{infinity}")) ==
      "is infinite; set the option infinity to null or clamp")
  }
}
