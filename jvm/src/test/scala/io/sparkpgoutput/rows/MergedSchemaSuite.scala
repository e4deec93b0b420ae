package io.sparkpgoutput.rows

import org.apache.spark.sql.types.StructType

import org.scalatest.funsuite.AnyFunSuite

class MergedSchemaSuite extends AnyFunSuite {
  private def merged(caseSensitive: Boolean)(schemas: String*): String =
    TableSchema.ddl(MergedSchema.of(schemas.map(StructType.fromDDL), caseSensitive))

  private def merged(schemas: String*): String = merged(caseSensitive = false)(schemas: _*)

  test("the columns come in the order in which they first appear") {
    assert(merged("b INT, a INT", "a INT", "c DATE, b INT") == "b INT, a INT, c DATE")
    assert(merged() == "STRUCT<>")
  }

  test("a column has a type that takes the values of both exactly, or STRING") {
    Seq(
      ("TINYINT", "BIGINT", "BIGINT"),
      ("INT", "SMALLINT", "INT"),
      ("FLOAT", "DOUBLE", "DOUBLE"),
      ("DOUBLE", "INT", "STRING"),
      ("DECIMAL(6,2)", "DECIMAL(5,4)", "DECIMAL(8,4)"),
      ("DECIMAL(6,2)", "INT", "DECIMAL(12,2)"),
      ("DECIMAL(38,19)", "BIGINT", "DECIMAL(38,19)"),
      ("DECIMAL(38,20)", "BIGINT", "STRING"),
      ("DATE", "TIMESTAMP", "STRING"),
      ("ARRAY<INT>", "ARRAY<BIGINT>", "STRING"),
      ("ARRAY<INT>", "ARRAY<INT>", "ARRAY<INT>")
    ).foreach { case (one, other, expected) =>
      assert(merged(s"a $one", s"a $other") == s"a $expected", s"$one, $other")
      assert(merged(s"a $other", s"a $one") == s"a $expected", s"$other, $one")
    }
  }

  test("the comment is the last one, unless the types differ") {
    val one = "a STRING COMMENT 'varchar(5)'"
    assert(merged(one, "a STRING COMMENT 'text'") == "a STRING COMMENT 'text'")
    assert(merged(one, "a INT COMMENT 'int4'") == "a STRING")
  }

  test("the setting for case decides whether names are the same") {
    assert(merged("A INT", "a BIGINT") == "A BIGINT")
    assert(merged(caseSensitive = true)("A INT", "a BIGINT") == "A INT, a BIGINT")
  }
}
