package io.sparkpgoutput.types.registry

import scala.io.{Codec, Source}
import scala.util.Using

import org.apache.spark.SparkConf
import org.apache.spark.serializer.JavaSerializer
import org.apache.spark.sql.types._

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.types.families.PgReg
import io.sparkpgoutput.types.numbers.PgXid8
import io.sparkpgoutput.types.{ConversionOptions, ConversionTests}

class TypeRegistrySuite extends AnyFunSuite with ConversionTests {
  test("no oid and no name occurs twice") {
    val all = BuiltInTypes.all.flatMap(known => Seq(known.oid, known.arrayOid)).filter(_ != 0)
    assert(all.distinct == all)
    assert(BuiltInTypes.all.map(_.pgType.name).distinct.size == BuiltInTypes.all.size)
  }

  test("names, oids, arrays and delimiters are those of the catalog of PostgreSQL 18") {
    val catalog = Using.resource(Source.fromResource("types/pg_type.tsv")(Codec.UTF8)) {
      _.getLines().map(_.split("\t")).map(row =>
        (row(0), row(1).toLong, row(2).toLong, row(4))
      ).toSeq
    }
    val elements = catalog.map { case (name, _, array, _) => array -> name }.toMap - 0L
    val (known, others) = catalog.partition { case (_, oid, _, _) =>
      BuiltInTypes.byOid.contains(oid)
    }
    known.foreach { case (name, oid, array, delimiter) =>
      val pgType = BuiltInTypes.byOid(oid)
      elements.get(oid) match {
        case Some(element) => assert(pgType.name == s"$element[]")
        case None =>
          assert(BuiltInTypes.all.contains(BuiltInTypes.BuiltInType(pgType, oid, array)), name)
          assert(pgType.name == name)
          assert(pgType.delimiter.toString == delimiter)
      }
    }
    // "unknown" is a pseudo-type.
    assert(BuiltInTypes.byOid.keySet -- known.map(_._2) == Set(705L))
    // Types that only the catalog's own tables have.
    assert(
      others.map(_._1).toSet ==
        Set(
          "pg_node_tree",
          "_cstring",
          "pg_ndistinct",
          "pg_dependencies",
          "gtsvector",
          "_gtsvector",
          "pg_brin_bloom_summary",
          "pg_brin_minmax_multi_summary",
          "pg_mcv_list"
        )
    )
  }

  test("a declaration names a type whose oid PostgreSQL does not fix") {
    Seq(
      "int4" -> "int4",
      "hstore" -> "hstore",
      "enum" -> "enum",
      "composite" -> "composite",
      "array:enum" -> "enum[]",
      "array:composite" -> "composite[]",
      "array:range:int4" -> "range[]",
      "array:multirange:numeric" -> "multirange[]",
      "range:timestamptz" -> "range",
      "range:array:int4" -> "range",
      "multirange:date" -> "multirange",
      "array:int4range" -> "int4range[]",
      "_int4" -> "int4[]"
    ).foreach { case (declaration, name) =>
      assert(TypeRegistry().declared(declaration).map(_.name).contains(name), declaration)
    }
    Seq(
      "",
      ":",
      "array",
      "array:",
      "array:array:int4",
      "range:",
      "range:nothing",
      "list:int4",
      "Int4",
      "int4:array",
      "array:range:multirange:x",
      "_enum",
      "array:_int4",
      "int4[]",
      "12"
    ).foreach { declaration =>
      assert(TypeRegistry().declared(declaration).isEmpty, declaration)
    }
  }

  test("executors get the registry, with the same objects for PostgreSQL's own types") {
    val serializer = new JavaSerializer(new SparkConf(false)).newInstance()
    val registry = TypeRegistry(Map(16400L -> "composite", 16401L -> "multirange:array:xid8"))
    registry.byOid(16400)
    val sent = serializer.deserialize[TypeRegistry](serializer.serialize(registry))
    assert(sent == registry)
    registry.declarations.keys.foreach { oid =>
      assert(sent.byOid(oid).isKnown)
      assert(sent.byOid(oid).name == registry.byOid(oid).name)
    }
    assert(sent.byOid(23) eq registry.byOid(23))
  }

  test("a declared range is read in the same way as a built-in one") {
    val declared = TypeRegistry().declared("range:int4").get
    val binary = Array[Byte](18, 0, 0, 0, 4, 0, 0, 0, 7)
    assert(fromBinary(declared, StringType, binary).toString == "[7,)")
  }

  test("each type can be read as its default Spark type") {
    BuiltInTypes.all.foreach { known =>
      assert(known.pgType.to(known.pgType.sparkType(-1), ConversionOptions()).isDefined, known)
    }
  }

  test("a name is not read as an oid") {
    val regclass = BuiltInTypes.all.find(_.oid == 2205).get.pgType
    assert(fromText(regclass, LongType, "4294967295") == 4294967295L)
    assert(problem(fromText(regclass, LongType, "orders")) == "is a name, not an oid; use STRING")
    assert(fromBinary(regclass, LongType, Array[Byte](-1, -1, -1, -1)) == 4294967295L)
  }

  test("the text of no object is the oid 0, but an operator can have that name") {
    val (operators, others) = BuiltInTypes.all
      .map(_.pgType)
      .filter(_.isInstanceOf[PgReg])
      .partition(_.name.startsWith("regoper"))
    assert(operators.map(_.name) == Seq("regoper", "regoperator"))
    assert(others.size == 9)
    others.foreach(each => assert(fromText(each, LongType, "-") == 0L, each.name))
    for (each <- operators) {
      assert(fromText(each, LongType, "0") == 0L)
      assert(problem(fromText(each, LongType, "-")) == "is a name, not an oid; use STRING")
    }
    assert(problem(fromText(others.head, LongType, "-1")) == "is a name, not an oid; use STRING")
  }

  test("a large xid8 does not fit BIGINT, but fits DECIMAL(20,0)") {
    val refused = "is out of range for BIGINT; use DECIMAL(20,0) or STRING"
    val greatest = Array.fill(8)(-1: Byte)
    assert(problem(fromText(PgXid8, LongType, "9223372036854775808")) == refused)
    assert(problem(fromBinary(PgXid8, LongType, greatest)) == refused)
    assert(fromText(PgXid8, DecimalType(20, 0), "18446744073709551615").toString ==
      "18446744073709551615")
    assert(fromBinary(PgXid8, DecimalType(20, 0), greatest).toString == "18446744073709551615")
    assert(problem(fromText(PgXid8, LongType, "-1")) == "is not a valid xid8")
  }

  test("an xid8 becomes FLOAT or DOUBLE only if it keeps its value") {
    def binary(value: Long) = java.nio.ByteBuffer.allocate(8).putLong(value).array
    for ((target, bits) <- Seq(FloatType -> 24, DoubleType -> 53)) {
      val greatest = 1L << bits
      val refused = s"has more digits than ${target.sql} keeps"
      assert(fromText(PgXid8, target, greatest.toString).toString.toDouble == greatest.toDouble)
      assert(fromBinary(PgXid8, target, binary(greatest)).toString.toDouble == greatest.toDouble)
      assert(problem(fromText(PgXid8, target, (greatest + 1).toString)).startsWith(refused))
      assert(problem(fromBinary(PgXid8, target, binary(greatest + 1))).startsWith(refused))
    }
  }
}
