package io.sparkpgoutput.lake.verify

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.apache.spark.sql.types._
import org.apache.spark.sql.{DataFrame, Row}

import io.sparkpgoutput.SparkSessionTests

class RowComparisonSuite extends SparkSessionTests {
  private val schema = StructType.fromDDL(
    "a INT, `b.c` STRING, d DOUBLE, n DECIMAL(30,2), t TIMESTAMP, l ARRAY<INT>, m MAP<STRING, STRING>, " +
      "s STRUCT<x: INT, y: STRING>, bin BINARY"
  )

  private def frame(rows: Seq[Row], parts: Int = 2): DataFrame =
    spark.createDataFrame(spark.sparkContext.parallelize(rows, parts), schema)

  private def compare(key: String*)(server: Seq[Row], target: Seq[Row]): TableDifference =
    new RowComparison(schema, key, tasks = 1).compare(frame(server), frame(target, parts = 3))

  private def row(a: Any, text: Any, d: Any = 1.5, l: Any = Seq(1), m: Any = Map("k" -> "v")): Row =
    Row(
      a,
      text,
      d,
      new java.math.BigDecimal("123456789012345678901.50"),
      java.sql.Timestamp.valueOf("2026-11-22 16:00:00.123456"),
      l,
      m,
      Row(1, null),
      Array[Byte](1, 2)
    )

  private def kinds(found: TableDifference) = found.keys.map(key => key.key -> key.kind).toMap

  test("equal rows in another order do not differ, nor do NaN, -0 and maps in another order") {
    val server =
      Seq(
        row(1, "x", Double.NaN),
        row(2, "y", -0.0, null, Map("k" -> "v", "l" -> "w")),
        row(3, null)
      )
    val other = java.lang.Double.longBitsToDouble(0x7ff8000000000001L)
    val target =
      Seq(row(3, null), row(1, "x", other), row(2, "y", 0.0, null, Map("l" -> "w", "k" -> "v")))
    for (key <- Seq(Seq("a"), Nil))
      assert(compare(key: _*)(server, target) == TableDifference(3, 3, 0, 0, 0, Nil))
    assert(compare("a")(Nil, Nil) == TableDifference(0, 0, 0, 0, 0, Nil))
  }

  test("rows with a key are missing, too many or different") {
    val server = Seq(row(1, "x"), row(2, "y"), row(4, "z"), row(5, "w"))
    val target =
      Seq(row(1, "x"), row(2, "Y"), row(3, "z"), row(4, "z"), row(5, "w"), row(5, "w"), row(5, "v"))
    val found = compare("a")(server, target)
    assert(found.copy(keys = Nil) == TableDifference(4, 7, 0, 3, 1, Nil))
    assert(
      found.keys == Seq(
        DifferingKey("different", """{"a":2}"""),
        DifferingKey("only in the target", """{"a":3}"""),
        DifferingKey("only in the target", """{"a":5}""")
      )
    )
    assert(kinds(compare("b.c", "a")(server, Nil))("""{"b.c":"z","a":4}""") == "only at the server")
  }

  test("rows without a key are counted") {
    val server = Seq(row(1, "x"), row(1, "x"), row(2, "y"))
    val target = Seq(row(1, "x"), row(2, "y"), row(2, "y"), row(2, "y"), row(3, null))
    val found = compare()(server, target)
    assert(found.copy(keys = Nil) == TableDifference(3, 5, 1, 3, 0, Nil))
    assert(found.keys.map(_.kind) == Seq("only at the server") ++ Seq.fill(2)("only in the target"))
    assert(found.keys.last.key.startsWith("""{"a":3,"b.c":null,"d":1.5"""), found.keys.last.key)
  }

  test("NULL differs from each value, and the place of a value counts") {
    val pairs = Seq(
      row(1, "x", null) -> row(1, "x", 0.0),
      row(2, "x", l = Seq[Any](1, null)) -> row(2, "x", l = Seq(1)),
      row(3, "x", l = Seq[Any](1, null)) -> row(3, "x", l = Seq[Any](null, 1)),
      row(4, "x", l = Seq()) -> row(4, "x", l = null),
      row(5, "x", m = Map("k" -> null)) -> row(5, "x", m = Map()),
      row(6, "x", m = Map("a" -> "b", "b" -> "a")) -> row(6, "x", m = Map("a" -> "a", "b" -> "b"))
    )
    val found = compare("a")(pairs.map(_._1), pairs.map(_._2))
    assert(found.different == pairs.length, found.keys)
  }

  test("random differences are counted, and the first 20 are named") {
    val random = new Random(3)
    val keys = random.shuffle((1 to 3000).toList)
    val (gone, changed) = (keys.take(25).toSet, keys.slice(25, 60).toSet)
    val server = (1 to 3000).map(id => row(id, s"v$id"))
    val target = server.filterNot(row => gone(row.getInt(0))).map(found =>
      if (changed(found.getInt(0))) row(found.getInt(0), "changed") else found
    ) ++ (3001 to 3010).map(row(_, "new"))
    val found = compare("a")(server, random.shuffle(target))
    assert(found.copy(keys = Nil) == TableDifference(3000, 2985, 25, 10, 35, Nil))
    val first = (gone ++ changed).toSeq.sorted.take(20).map { id =>
      DifferingKey(if (gone(id)) "only at the server" else "different", s"""{"a":$id}""")
    }
    assert(found.keys == first)
  }

  test("variants are compared by their JSON") {
    val variants = StructType.fromDDL("id INT, v VARIANT")
    def frame(texts: String*) = spark
      .createDataFrame(
        texts.zipWithIndex.map { case (text, id) => Row(id, text) }.asJava,
        StructType.fromDDL("id INT, v STRING")
      )
      .selectExpr("id", "parse_json(v) AS v")
    def different(server: DataFrame, target: DataFrame) =
      new RowComparison(variants, Seq("id"), 1).compare(server, target).different
    assert(different(frame("""{"b": 1, "a": [2]}"""), frame("""{"a": [2], "b": 1}""")) == 0)
    assert(different(frame("""{"a": 1}""", "1"), frame("""{"a": 1}""", "null")) == 1)
  }
}
