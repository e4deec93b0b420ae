package io.sparkpgoutput.decode

import org.apache.spark.sql.types._

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.decode.FieldSelection._
import io.sparkpgoutput.protocol.TupleSchema

class FieldSelectionSuite extends AnyFunSuite {
  private val point = new StructType().add("x", IntegerType).add("y", IntegerType)
  private val line = new StructType().add("from", point).add("to", point).add("name", StringType)
  private val drawing = new StructType()
    .add("lines", ArrayType(line, containsNull = false))
    .add("title", StringType)

  test("all of a type, together with a part of it, is all of it") {
    Seq(All, Presence, members("a"), member("a", Presence)).foreach { part =>
      assert(All.and(part) == All)
      assert(part.and(All) == All)
    }
    assert(member("a", members("x")).and(member("a", All)) == member("a", All))
    assert(member("a", All).and(member("a", members("x"))) == member("a", All))
  }

  test(
    "two selections together have the members of both, and the parts of both of the same member"
  ) {
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

  test("the presence adds nothing to another selection") {
    Seq(Presence, members("a"), member("a", Presence)).foreach { part =>
      assert(Presence.and(part) == part)
      assert(part.and(Presence) == part)
    }
    assert(member("a", Presence).and(member("a", members("x"))) == member("a", members("x")))
  }

  test("all of a type is the type itself") {
    Seq(line, drawing, StringType, ArrayType(line)).foreach { dataType =>
      assert(All.prune(dataType) == dataType)
    }
    assert(members("x", "y").prune(point) == point)
  }

  test("the selected members stay in the struct's order") {
    assert(members("y").prune(point) == new StructType().add("y", IntegerType))
    val both = members("name", "from").prune(line)
    assert(both == new StructType().add("from", point).add("name", StringType))
  }

  test("structs in a struct are narrowed too") {
    val y = new StructType().add("y", IntegerType)
    val part = member("to", members("y")).and(member("name", All))
    assert(part.prune(line) == new StructType().add("to", y).add("name", StringType))
  }

  test("structs in arrays are narrowed too") {
    val names = new StructType().add("name", StringType)
    val pruned = member("lines", members("name")).prune(drawing)
    assert(pruned == new StructType().add("lines", ArrayType(names, containsNull = false)))
    val nullable = members("name").prune(ArrayType(line, containsNull = true))
    assert(nullable == ArrayType(names, containsNull = true))
  }

  test("elements of a tuple's text do not change its type") {
    Seq(All, members("x")).foreach { other =>
      assert(Elements(Set(3)).and(other) == All)
      assert(other.and(Elements(Set(3))) == All)
    }
    assert(Elements(Set(30, 3)).and(Elements(Set(7))) == Elements(Set(3, 7, 30)))
    assert(Elements(Set(3)).and(Presence) == Elements(Set(3)))
    assert(Presence.and(Elements(Set(3))) == Elements(Set(3)))
    val text = member("text", Elements(Set(30, 3)))
    assert(text.prune(TupleSchema.schema) == StructType(Seq(TupleSchema.schema("text"))))
    assert(text.paths(TupleSchema.schema) == Seq("text[3, 30]"))
    assert(!text.isAll(StructType(Seq(TupleSchema.schema("text")))))
  }

  test("the cells of a tuple come after its members") {
    def left(part: FieldSelection) = part.prune(TupleSchema.schema).asInstanceOf[StructType].names
    assert(left(Cells).sameElements(Array("cells")))
    assert(left(Cells.and(members("binary"))).sameElements(Array("binary", "cells")))
    assert(left(Cells.and(Presence)).sameElements(Array("cells")))
    assert(left(Cells.and(All)).sameElements(TupleSchema.schema.names))
    assert(left(Presence).sameElements(Array("kinds")))
  }

  test("nothing adds nothing, and leaves no member") {
    Seq(All, Presence, members("a"), Elements(Set(1)), Cells, Unused).foreach { part =>
      assert(Unused.and(part) == part)
      assert(part.and(Unused) == part)
    }
    assert(Unused.prune(point) == new StructType)
  }

  test("all members, and all of each, are all of a struct") {
    assert(members("x", "y").isAll(point))
    assert(!members("x").isAll(point))
    val parts = member("from", members("x", "y")).and(members("to", "name"))
    assert(parts.isAll(line))
    assert(!member("from", members("x")).and(members("to", "name")).isAll(line))
    assert(member("lines", parts).and(members("title")).isAll(drawing))
    assert(!members(TupleSchema.schema.names.toSeq: _*).and(Cells).isAll(TupleSchema.schema))
  }

  test("paths name the members, and a struct that is whole by its name") {
    val some = member("lines", member("to", members("y")).and(members("name")))
    assert(some.paths(drawing) == Seq("lines.to.y", "lines.name"))
    assert(member("lines", members("from", "to", "name")).paths(drawing) == Seq("lines"))
    assert(All.paths(drawing) == Seq("lines", "title"))
  }

  test("other types are not narrowed") {
    Seq(StringType, ArrayType(StringType), MapType(StringType, point)).foreach { dataType =>
      assert(members("x").prune(dataType) == dataType)
      assert(Presence.prune(dataType) == dataType)
    }
  }

  test("members keep their nullability and comments") {
    val commented = new StructType().add("a", point, nullable = false, "what it is")
    val pruned = member("a", members("x")).prune(commented).asInstanceOf[StructType]
    assert(!pruned.head.nullable)
    assert(pruned.head.getComment().contains("what it is"))
  }

  test("the presence of a struct leaves its first member, the first member of that, and so on") {
    val x = new StructType().add("x", IntegerType)
    assert(Presence.prune(point) == x)
    assert(Presence.prune(line) == new StructType().add("from", x))
    val lines = ArrayType(new StructType().add("from", x), containsNull = false)
    assert(Presence.prune(drawing) == new StructType().add("lines", lines))
    assert(member("to", Presence).prune(line) == new StructType().add("to", x))
  }

  test("members that the struct does not have leave its first member") {
    assert(members("z").prune(point) == new StructType().add("x", IntegerType))
  }

  test("a struct without members stays without members") {
    val nested = new StructType().add("a", new StructType).add("b", StringType)
    assert(Presence.prune(new StructType) == new StructType)
    assert(Presence.prune(nested) == new StructType().add("a", new StructType))
  }
}
