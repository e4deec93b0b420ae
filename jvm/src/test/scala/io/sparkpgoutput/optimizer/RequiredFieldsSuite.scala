package io.sparkpgoutput.optimizer

import org.apache.spark.sql.types._

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.optimizer.RequiredFields._
import io.sparkpgoutput.protocol.TupleSchema

class RequiredFieldsSuite extends AnyFunSuite {
  private val point = new StructType().add("x", IntegerType).add("y", IntegerType)
  private val line = new StructType().add("from", point).add("to", point).add("name", StringType)
  private val drawing = new StructType()
    .add("lines", ArrayType(line, containsNull = false))
    .add("title", StringType)

  private def members(names: String*) = Members(names.map(_ -> Whole).toMap)

  test("all of it and a part of it is all of it") {
    Seq(Whole, Presence, members("a"), member("a", Presence)).foreach { part =>
      assert(Whole.and(part) == Whole)
      assert(part.and(Whole) == Whole)
    }
    assert(member("a", members("x")).and(member("a", Whole)) == member("a", Whole))
    assert(member("a", Whole).and(member("a", members("x"))) == member("a", Whole))
  }

  test("members of both are needed, and of the same member the parts of both") {
    assert(members("a").and(members("b")) == members("a", "b"))
    val nested = member("a", members("x")).and(member("a", members("y")))
    assert(nested == member("a", members("x", "y")))
    val deep = member("a", member("b", members("x"))).and(member("a", member("b", members("y"))))
    assert(deep == member("a", member("b", members("x", "y"))))
    assert(
      member("a", members("x")).and(member("b", members("y"))) ==
        Members(Map("a" -> members("x"), "b" -> members("y")))
    )
  }

  test("whether it is NULL adds nothing") {
    Seq(Presence, members("a"), member("a", Presence)).foreach { part =>
      assert(Presence.and(part) == part)
      assert(part.and(Presence) == part)
    }
    assert(member("a", Presence).and(member("a", members("x"))) == member("a", members("x")))
  }

  test("all of it leaves the type as it is") {
    Seq(line, drawing, StringType, ArrayType(line)).foreach { dataType =>
      assert(Whole.prune(dataType) == dataType)
    }
    assert(members("x", "y").prune(point) == point)
  }

  test("members that are not needed go, the others stay in the struct's order") {
    assert(members("y").prune(point) == new StructType().add("y", IntegerType))
    val both = members("name", "from").prune(line)
    assert(both == new StructType().add("from", point).add("name", StringType))
  }

  test("structs in the struct are pruned likewise") {
    val y = new StructType().add("y", IntegerType)
    val part = member("to", members("y")).and(member("name", Whole))
    assert(part.prune(line) == new StructType().add("to", y).add("name", StringType))
  }

  test("so are structs in arrays") {
    val names = new StructType().add("name", StringType)
    val pruned = member("lines", members("name")).prune(drawing)
    assert(pruned == new StructType().add("lines", ArrayType(names, containsNull = false)))
    val nullable = members("name").prune(ArrayType(line, containsNull = true))
    assert(nullable == ArrayType(names, containsNull = true))
  }

  test("of a tuple's text some elements") {
    val tuple = TupleSchema.schema
    def text(part: RequiredFields) = member("text", part).prune(tuple).asInstanceOf[StructType].head
    def left(part: RequiredFields) = TupleSchema.elements(text(part))
    assert(text(Elements(Set(3))).dataType == tuple("text").dataType)
    assert(text(Elements(Set(3))).getComment() == tuple("text").getComment())
    assert(left(Elements(Set(30, 3)).and(Elements(Set(7)))).contains(Seq(3, 7, 30)))
    assert(left(Elements(Set(3)).and(Presence)).contains(Seq(3)))
    assert(left(Presence.and(Elements(Set(3)))).contains(Seq(3)))
    Seq(Whole, members("x")).foreach { other =>
      assert(Elements(Set(3)).and(other) == Whole)
      assert(other.and(Elements(Set(3))) == Whole)
    }
    assert(left(Whole).isEmpty)
  }

  test("of a tuple also its bytes, beside its members or alone") {
    def left(part: RequiredFields) = part.prune(TupleSchema.schema).asInstanceOf[StructType].names
    assert(left(Cells).sameElements(Array("cells")))
    assert(left(Cells.and(members("binary"))).sameElements(Array("binary", "cells")))
    assert(left(Cells.and(Presence)).sameElements(Array("cells")))
    assert(left(Cells.and(Whole)).sameElements(TupleSchema.schema.names))
    assert(left(Presence).sameElements(Array("kinds")))
  }

  test("what is neither struct nor array of structs stays") {
    Seq(StringType, ArrayType(StringType), MapType(StringType, point)).foreach { dataType =>
      assert(members("x").prune(dataType) == dataType)
      assert(Presence.prune(dataType) == dataType)
    }
  }

  test("nullability and comments of members stay") {
    val commented = new StructType().add("a", point, nullable = false, "what it is")
    val pruned = member("a", members("x")).prune(commented).asInstanceOf[StructType]
    assert(!pruned.head.nullable)
    assert(pruned.head.getComment().contains("what it is"))
  }

  test("whether it is NULL leaves the first member, and of that the first, and so on") {
    val x = new StructType().add("x", IntegerType)
    assert(Presence.prune(point) == x)
    assert(Presence.prune(line) == new StructType().add("from", x))
    val lines = ArrayType(new StructType().add("from", x), containsNull = false)
    assert(Presence.prune(drawing) == new StructType().add("lines", lines))
    assert(member("to", Presence).prune(line) == new StructType().add("to", x))
  }

  test("members that the struct does not have leave the first") {
    assert(members("z").prune(point) == new StructType().add("x", IntegerType))
  }

  test("of a typed row whole columns only, and the first where none is needed") {
    val row = new StructType().add("p", point).add("l", ArrayType(line)).add("n", StringType)
    assert(Whole.ofTypedRow(row) == Whole)
    assert(members("n").and(member("l", members("name"))).ofTypedRow(row) == members("l", "n"))
    assert(member("p", Presence).ofTypedRow(row) == members("p"))
    assert(Presence.ofTypedRow(row) == members("p"))
    assert(Presence.ofTypedRow(row).prune(row) == new StructType().add("p", point))
    assert(Presence.ofTypedRow(new StructType) == Presence)
  }

  test("a struct without members stays one") {
    val nested = new StructType().add("a", new StructType).add("b", StringType)
    assert(Presence.prune(new StructType) == new StructType)
    assert(Presence.prune(nested) == new StructType().add("a", new StructType))
  }
}
