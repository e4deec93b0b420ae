package io.sparkpgoutput.source

import org.scalatest.funsuite.AnyFunSuite

class SqlIdentifierSuite extends AnyFunSuite {

  test("a name is in quotes if it would mean something else without them") {
    val quoted =
      Seq(
        "Orders",
        "größe",
        "two words",
        "1st",
        "a.b",
        "a$b",
        "",
        "order",
        "user",
        "between",
        "left"
      )
    quoted.foreach(name => assert(SqlIdentifier(name) == s"\"$name\""))
    assert(SqlIdentifier("say \"hi\"") == "\"say \"\"hi\"\"\"")
  }

  test("a simple name has no quotes, and neither has a word that is not reserved") {
    Seq("orders", "_1", "order_2", "orders1", "name", "data").foreach { name =>
      assert(SqlIdentifier(name) == name)
    }
  }
}
