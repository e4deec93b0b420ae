package io.sparkpgoutput.changes

import org.scalatest.funsuite.AnyFunSuite

class TableNameSuite extends AnyFunSuite {

  test("a name is shown with its namespace, and an empty one is pg_catalog") {
    assert(TableName("public", "orders").toString == "public.orders")
    assert(TableName("", "pg_class").toString == "pg_catalog.pg_class")
  }

  test("names in SQL's notation are parsed") {
    val one = Seq(
      "orders" -> TablePattern("public", Some("orders")),
      "Sales.Orders" -> TablePattern("sales", Some("orders")),
      "  sales . orders  " -> TablePattern("sales", Some("orders")),
      "\"Sales\".\"Orders\"" -> TablePattern("Sales", Some("Orders")),
      "`Sales`.`Orders`" -> TablePattern("Sales", Some("Orders")),
      "\"a.b\".\"c,d\"" -> TablePattern("a.b", Some("c,d")),
      "\"say \"\"it\"\"\"" -> TablePattern("public", Some("say \"it\"")),
      "`a``b`" -> TablePattern("public", Some("a`b")),
      "\"*\".\"*\"" -> TablePattern("*", Some("*")),
      "sales.*" -> TablePattern("sales", None),
      "\"Sales\" . *" -> TablePattern("Sales", None),
      "größe.t$1" -> TablePattern("größe", Some("t$1")),
      "GRÖSSE.İD" -> TablePattern("grÖsse", Some("İd")) // as PostgreSQL folds it
    )
    one.foreach { case (text, pattern) =>
      assert(TablePattern.parse(text) == Right(Seq(pattern)), text)
    }
    assert(TablePattern.parse(one.map(_._1).mkString(",")) == Right(one.map(_._2)))
  }

  test("the rest that cannot be parsed is returned") {
    Seq(
      "" -> "",
      " " -> " ",
      "*" -> "*",
      "a.b.c" -> ".c",
      "a b" -> "b",
      "a," -> "",
      "a,,b" -> ",b",
      "a.*b" -> "b",
      "\"\"" -> "\"\"",
      "a, \"b" -> " \"b",
      "a.b, c.d.e, f" -> ".e, f"
    ).foreach { case (text, rest) => assert(TablePattern.parse(text) == Left(rest), text) }
  }

  test("a list of names can be long") {
    val names = (1 to 50000).map(number => TablePattern("public", Some(s"t$number")))
    assert(TablePattern.parse(names.mkString(", ")) == Right(names))
  }

  test("a pattern matches one table, or all of a namespace") {
    val tables = Seq(
      TableName("public", "orders"),
      TableName("public", "Orders"),
      TableName("sales", "orders"),
      TableName("", "pg_class")
    )
    def matched(text: String) = {
      val patterns = TablePattern.parse(text).toOption.get
      tables.filter(table => patterns.exists(_.matches(table)))
    }
    Seq(
      "orders" -> Seq(tables(0)),
      "\"Orders\"" -> Seq(tables(1)),
      "public.*" -> tables.take(2),
      "sales.orders" -> Seq(tables(2)),
      "pg_catalog.pg_class" -> Seq(tables(3)),
      "pg_catalog.*" -> Seq(tables(3)),
      "other.*" -> Nil
    ).foreach { case (text, expected) => assert(matched(text) == expected, text) }
  }

  test("no two tables have the same text, and a user can write it") {
    val tables =
      Seq(
        "a.b" -> "c",
        "a" -> "b.c",
        "a" -> "b",
        "\"a\"" -> "\"b",
        "\"a.b" -> "c",
        "A" -> "b.\"C",
        "A" -> "b"
      )
        .map { case (namespace, name) => TableName(namespace, name) }
    assert(tables.take(3).map(_.unambiguous) == Seq("\"a.b\".\"c\"", "\"a\".\"b.c\"", "a.b"))
    assert(tables.map(_.unambiguous).distinct.length == tables.length)
    for (table <- tables; other <- tables)
      assert(TablePattern.isOf(table.unambiguous, other) == (table == other), s"$table $other")
  }

  test("a user can mean several tables by one text") {
    val orders = TableName("public", "orders")
    assert(TablePattern.meant("orders") == Set(orders))
    assert(TablePattern.meant("Orders") == Set(orders, TableName("public", "Orders")))
    assert(TablePattern.meant("\"Orders\"")(TableName("public", "Orders")))
    assert(!TablePattern.meant("\"Orders\"")(orders))
    val same = Set(TableName("a.b", "c"), TableName("a", "b.c"), TableName("public", "a.b.c"))
    assert(TablePattern.meant("a.b.c") == same)
    assert(TablePattern.meant(".x") == Set(TableName("public", ".x")))
  }
}
