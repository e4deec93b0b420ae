package io.sparkpgoutput.types.containers

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types._

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.types.registry.BuiltInTypes
import io.sparkpgoutput.types.{ConversionOptions, ConversionTests, InfinityMode}

class PgRangeSuite extends AnyFunSuite with ConversionTests {
  private val int4range = BuiltInTypes.byOid(3904)
  private val target = DataType
    .fromDDL(
      "lower INT, upper INT, lower_inclusive BOOLEAN, upper_inclusive BOOLEAN, empty BOOLEAN"
    )
    .asInstanceOf[StructType]

  private def read(value: Any) = value.asInstanceOf[InternalRow].toSeq(target)
  private def bytes(values: Int*) = values.map(_.toByte).toArray

  test("text is read as the bounds, and whether they are part of the range") {
    Seq[(String, Seq[Any])](
      "[1,5)" -> Seq[Any](1, 5, true, false, false),
      "(1,5]" -> Seq[Any](1, 5, false, true, false),
      "[,5]" -> Seq[Any](null, 5, false, true, false),
      "(\"1\",)" -> Seq[Any](1, null, false, false, false),
      "(,)" -> Seq[Any](null, null, false, false, false),
      "empty" -> Seq[Any](null, null, false, false, true)
    ).foreach { case (text, expected) =>
      assert(read(fromText(int4range, target, text)) == expected, text)
    }
  }

  test("a bound that infinity=null makes NULL stays inclusive, unlike a missing one") {
    val dates = DataType.fromDDL(target.toDDL.replace("INT", "DATE")).asInstanceOf[StructType]
    val options = ConversionOptions(infinity = InfinityMode.Null)
    val daterange = BuiltInTypes.byOid(3912)
    def flags(value: Any) = value.asInstanceOf[InternalRow].toSeq(dates).drop(1)
    val infinite = Seq[Any](null, true, true, false)
    assert(flags(fromText(daterange, dates, "[1970-01-01,infinity]", options)) == infinite)
    val bound = bytes(0, 0, 0, 4, 0, 0, 0, 0)
    val end = bytes(0, 0, 0, 4, 127, -1, -1, -1)
    assert(flags(fromBinary(daterange, dates, bytes(6) ++ bound ++ end, options)) == infinite)
    val missing = Seq[Any](null, true, false, false)
    assert(flags(fromText(daterange, dates, "[1970-01-01,)", options)) == missing)
    assert(flags(fromBinary(daterange, dates, bytes(2 + 16) ++ bound, options)) == missing)
  }

  test("text that is not a range is refused") {
    Seq(
      "",
      "[",
      "[]",
      "[1]",
      "[1,2",
      "[1,2)x",
      "[1,2,3)",
      "[1)2,3)",
      "1,2)",
      "{1,2)",
      "[\"1,2)",
      "[\"1\"2,3)",
      "[1\"2\",3)",
      "[1,2\\)",
      "[1,\"2\"",
      "EMPTY",
      "[1,2}"
    ).foreach { text =>
      withClue(text) {
        assert(problem(fromText(int4range, target, text)).startsWith("is not a valid int4"))
      }
    }
  }

  test("binary values with wrong flags, cut off or too long are refused") {
    Seq(
      bytes(),
      bytes(32),
      bytes(128),
      bytes(8 + 16 + 2),
      bytes(8 + 16 + 4),
      bytes(1, 0),
      bytes(8, 0, 0, 0, 4, 0, 0, 0),
      bytes(8, 127, -1, -1, -1, 0, 0, 0, 1),
      bytes(8, -1, -1, -1, -1),
      bytes(8, 0, 0, 0, 4, 0, 0, 0, 1, 0)
    ).foreach { binary =>
      Seq(target, StringType).foreach { spark =>
        assert(problem(fromBinary(int4range, spark, binary)) == "is not a valid int4range")
      }
    }
  }

  test("a range is read only as a STRUCT with exactly the fields of a range") {
    assert(int4range.to(target, ConversionOptions()).isDefined)
    Seq(
      StructType(target.reverse),
      StructType(target.drop(1)),
      StructType(target.updated(0, target.head.copy(nullable = false))),
      StructType(target.updated(4, target.last.copy(dataType = IntegerType)))
    ).foreach(other => assert(int4range.to(other, ConversionOptions()).isEmpty, other))
  }

  test("a multirange must have as many ranges as its count says") {
    val multirange = BuiltInTypes.byOid(4451)
    assert(fromBinary(multirange, StringType, bytes(0, 0, 0, 0)).toString == "{}")
    Seq(
      bytes(127, -1, -1, -1),
      bytes(-1, -1, -1, -1),
      bytes(0, 0, 0, 1, 127, -1, -1, -1, 1),
      bytes(0, 0, 0, 1, -1, -1, -1, -1, 1),
      bytes(0, 0, 0, 0, 0),
      bytes(0, 0, 0)
    ).foreach { binary =>
      assert(problem(fromBinary(multirange, StringType, binary)).startsWith("is not a valid"))
    }
  }
}
