package io.sparkpgoutput.lake.route

import java.nio.charset.StandardCharsets

import org.scalatest.funsuite.AnyFunSuite

class KeyBytesSuite extends AnyFunSuite {
  private def number(text: String): KeyBytes = {
    val key = new KeyBytes
    val bytes = text.getBytes(StandardCharsets.US_ASCII)
    key.addNumber(bytes, 0, bytes.length)
    key
  }

  test("equal numbers are the same key, and others are not") {
    Seq(
      "1" -> "1.0",
      "1.50" -> "1.5",
      "-0" -> "0",
      "-1.00" -> "-1",
      "NaN" -> "NaN",
      "1e-10" -> "1e-10"
    )
      .foreach { case (one, other) => assert(number(one).isSame(number(other)), (one, other)) }
    Seq(
      "1" -> "10",
      "1.5e-10" -> "1.5e-1",
      "100" -> "1",
      "-1" -> "1",
      "-0.1" -> "0.1",
      "0" -> "NaN"
    )
      .foreach { case (one, other) => assert(!number(one).isSame(number(other)), (one, other)) }
  }

  test("nested numbers are the same key if all of them are equal") {
    Seq(
      "{1.0,-0,NULL}" -> "{1,0,NULL}",
      "[0:1]={10,2.50}" -> "[0:1]={10,2.5}",
      "(1.00,t,)" -> "(1.0,t,)",
      "[1.0,2.00)" -> "[1,2)",
      "empty" -> "empty"
    ).foreach { case (one, other) => assert(number(one).isSame(number(other)), (one, other)) }
    Seq(
      "{1,0}" -> "{10}",
      "{10}" -> "{1}",
      "{-1}" -> "{1}",
      "{1.5,2}" -> "{1,5.2}",
      "[1,2)" -> "[1,2]",
      "{{1},{2}}" -> "{{1,2}}"
    ).foreach { case (one, other) => assert(!number(one).isSame(number(other)), (one, other)) }
  }

  test("columns do not run into each other, and NULL is not an empty text") {
    def key(columns: String*) = {
      val found = new KeyBytes
      columns.foreach { text =>
        if (text == null) found.addNull()
        else found.add(text.getBytes(StandardCharsets.UTF_8), 0, text.length)
      }
      found
    }
    assert(!key("ab", "c").isSame(key("a", "bc")))
    assert(!key("").isSame(key(null)))
    assert(key("x" * 1000, "y").isSame(key("x" * 1000, "y")))
    assert(key("a").hash != key("b").hash)
  }
}
