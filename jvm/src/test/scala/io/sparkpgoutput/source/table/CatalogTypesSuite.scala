package io.sparkpgoutput.source.table

import org.apache.spark.sql.types.{ArrayType, DataType, StringType}

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.types.registry.TypeRegistry

import CatalogTypes._

class CatalogTypesSuite extends AnyFunSuite {
  private val Numeric = 1700L
  private val Boxes = 1020L
  private val TwoDigits = (10 << 16 | 2) + 4 // numeric(10,2)

  private val types = Map[Long, CatalogType](
    Numeric -> base("numeric", "numeric_send"),
    20000L -> Domain("price", Numeric, TwoDigits),
    20001L -> Domain("cheap", 20000, -1),
    20002L -> Array("_cheap", 20001),
    20003L -> Domain("cheaps", 20002, -1),
    20004L -> Array("_cheaps", 20003),
    20010L -> Range("pricerange", "range", 20000),
    20011L -> Range("prices", "multirange", 20000),
    20020L -> Simple("mood", Some("enum")),
    20030L -> Composite("part", Seq(Numeric, 20046, Boxes)),
    20031L -> Array("_part", 20030),
    20032L -> Composite("whole", Seq(20031, Numeric)),
    20040L -> base("citext", "textsend"),
    20041L -> base("vector", null),
    20042L -> Array("_vector", 20041),
    20043L -> base("hstore", null),
    20044L -> base("geometry", null),
    20045L -> Array("_geometry", 20044, ':'),
    20046L -> Domain("shapes", 20045, -1),
    Boxes -> Array("_box", 603, ';')
  )

  private def catalog(declared: TypeRegistry = TypeRegistry()) = new CatalogTypes(types, declared)

  test("a type is declared as the built-in types that it consists of") {
    assert(
      catalog().registry.declarations == Map(
        20000L -> "numeric",
        20001L -> "numeric",
        20002L -> "array:numeric",
        20003L -> "array:numeric",
        20010L -> "range:numeric",
        20011L -> "multirange:numeric",
        20020L -> "enum",
        20030L -> "composite",
        20031L -> "array:composite",
        20032L -> "composite",
        20040L -> "text",
        20043L -> "hstore"
      )
    )
  }

  test("a type whose binary format is not known is read as text only") {
    // Arrays of arrays, which only domains make possible, are among them.
    Seq(20004L, 20041L, 20042L).foreach(oid => assert(!catalog().byOid(oid).isKnown, oid))
  }

  test("an array of an unknown type with a delimiter of its own cannot be split") {
    val texts = ArrayType(StringType)
    assert(Seq(20045L, 20046L).forall(catalog().hasOpaqueArray(_, texts)))
    assert(catalog().hasOpaqueArray(20045, ArrayType(texts)))
    assert(!Seq(20002L, 20041L, 20042L, 20044L, Numeric, Boxes).exists(
      catalog().hasOpaqueArray(_, texts)
    ))
    assert(!catalog().hasOpaqueArray(20045, StringType))
    assert(catalog(TypeRegistry(Map(20044L -> "text"))).hasOpaqueArray(20045, texts))
  }

  test("an array in a composite cannot be split unless its delimiter is a comma") {
    def part(shapes: String, boxes: String) = s"STRUCT<a: DOUBLE, b: $shapes, c: $boxes>"
    def isOpaque(oid: Long, ddl: String) = catalog().hasOpaqueArray(oid, DataType.fromDDL(ddl))
    val texts = part("STRING", "STRING")
    val shapes = part("ARRAY<STRING>", "STRING")
    val boxes = part("STRING", "ARRAY<STRING>")
    for ((ddl, wanted) <- Seq(texts -> false, shapes -> true, boxes -> true)) {
      assert(isOpaque(20030, ddl) == wanted, ddl)
      assert(isOpaque(20031, s"ARRAY<$ddl>") == wanted, ddl)
      assert(isOpaque(20031, s"ARRAY<ARRAY<$ddl>>") == wanted, ddl)
      assert(isOpaque(20032, s"STRUCT<parts: ARRAY<$ddl>, n: INT>") == wanted, ddl)
    }
    assert(!isOpaque(20032, "STRUCT<parts: STRING, n: ARRAY<STRING>>"))
  }

  test("a declaration of the user stays, and applies to the types that consist of its type") {
    val found =
      catalog(TypeRegistry(Map(20041L -> "text", 20020L -> "bytea"))).registry.declarations
    assert(found(20041) == "text" && found(20042) == "array:text" && found(20020) == "bytea")
  }

  test("a column of a domain, or of an array of it, has the modifier of the domain") {
    Seq(20000L, 20001L, 20002L, 20003L).foreach(oid =>
      assert(catalog().modifier(oid, -1) == TwoDigits, oid)
    )
    assert(catalog().modifier(Numeric, -1) == -1)
    assert(catalog().modifier(Numeric, 7) == 7)
  }

  test("a description names the type, and the base of a domain") {
    def described(oid: Long) = catalog().describe(oid, catalog().modifier(oid, -1))
    assert(described(20001) == "cheap (numeric(10,2))")
    assert(described(20002) == "cheap[] (numeric(10,2)[])")
    assert(described(20003) == "cheaps (numeric(10,2)[])")
    assert(described(20042) == "vector[]")
    assert(described(Numeric) == "numeric")
  }
}
