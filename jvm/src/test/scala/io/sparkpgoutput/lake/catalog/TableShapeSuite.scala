package io.sparkpgoutput.lake.catalog

import org.scalatest.funsuite.AnyFunSuite

class TableShapeSuite extends AnyFunSuite {
  private def fields(text: String) = TableShape.partition(text).map(_.map(_.sql))

  test("a list has columns and functions of columns") {
    assert(
      TableShape.partition(
        "country, days(`Created At`), bucket(16, id),truncate(4, `a.b`)"
      ).contains(
        Seq(
          PartitionField("country", "identity"),
          PartitionField("Created At", "days"),
          PartitionField("id", "bucket", Some(16)),
          PartitionField("a.b", "truncate", Some(4))
        )
      )
    )
    assert(TableShape.columns("a, `b c`").contains(Seq("a", "b c")))
  }

  test("all spellings of a field become one") {
    assert(fields("identity(a), DAY(b), Year(c), BUCKET(4, d)").contains(
      Seq("a", "days(b)", "years(c)", "bucket(4, d)")
    ))
    assert(fields("`a b`, years(`c,d`)").contains(Seq("`a b`", "years(`c,d`)")))
  }

  test("text that is not a list of fields is refused") {
    Seq(
      "",
      "a,",
      "days(",
      "a b c d",
      "bucket(16)",
      "bucket(a, b)",
      "a.b",
      "days(a) > 3",
      "years('x')"
    )
      .foreach(text => assert(TableShape.partition(text).isEmpty, text))
    Seq("days(a)", "").foreach(text => assert(TableShape.columns(text).isEmpty, text))
  }

  test("a shape follows columns that are renamed") {
    val shape = TableShape(TableShape.partition("days(a), b").get, Seq("a"))
    assert(shape.renamed(Map("a" -> "z").withDefault(identity)).toString ==
      "partition days(z), b; cluster z")
    assert(shape.renamed(identity) == shape)
  }
}
