package io.sparkpgoutput.types

import org.apache.spark.sql.types._

import org.scalatest.funsuite.AnyFunSuite

class PgTypesSuite extends AnyFunSuite with ConversionTests {
  test("no oid and no name is there twice") {
    val all = PgTypes.all.flatMap(known => Seq(known.oid, known.arrayOid)).filter(_ != 0)
    assert(all.distinct == all)
    assert(PgTypes.all.map(_.pgType.name).distinct.size == PgTypes.all.size)
  }

  test("a type can be read as what it is read as by default") {
    PgTypes.all.foreach { known =>
      assert(known.pgType.to(known.pgType.sparkType(-1), ConversionOptions()).isDefined, known)
    }
  }

  test("a name is no oid") {
    val regclass = PgTypes.all.find(_.oid == 2205).get.pgType
    assert(fromText(regclass, LongType, "4294967295") == 4294967295L)
    assert(problem(fromText(regclass, LongType, "orders")) == "is a name, not an oid; use STRING")
    assert(fromBinary(regclass, LongType, Array[Byte](-1, -1, -1, -1)) == 4294967295L)
  }

  test("a great xid8 is no BIGINT, but a DECIMAL(20,0)") {
    val refused = "is out of range for BIGINT; use DECIMAL(20,0) or STRING"
    val greatest = Array.fill(8)(-1: Byte)
    assert(problem(fromText(PgXid8, LongType, "9223372036854775808")) == refused)
    assert(problem(fromBinary(PgXid8, LongType, greatest)) == refused)
    assert(fromText(PgXid8, DecimalType(20, 0), "18446744073709551615").toString ==
      "18446744073709551615")
    assert(fromBinary(PgXid8, DecimalType(20, 0), greatest).toString == "18446744073709551615")
    assert(problem(fromText(PgXid8, LongType, "-1")) == "is no value of type xid8")
  }
}
