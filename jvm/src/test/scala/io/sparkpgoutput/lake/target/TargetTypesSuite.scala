package io.sparkpgoutput.lake.target

import org.apache.spark.sql.types._

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.errors.LakeException

class TargetTypesSuite extends AnyFunSuite {
  private def types(format: String, ddl: String, key: String*) =
    TargetTypes.of(format, "t", StructType.fromDDL(ddl), key).toDDL

  private def error(format: String, ddl: String, key: String*) = {
    val caught = intercept[LakeException](types(format, ddl, key: _*))
    assert(caught.getCondition == "PGOUTPUT_TARGET_TYPE")
    assert(caught.getMessage.contains("Set types.t.c=STRING, and start"))
  }

  test("Iceberg has no short integers, also inside of other types") {
    assert(
      types(
        "iceberg",
        "a SMALLINT,b ARRAY<TINYINT>,c STRUCT<x: SMALLINT>,d MAP<SMALLINT, STRING>"
      ) ==
        "a INT,b ARRAY<INT>,c STRUCT<x: INT>,d MAP<INT, STRING>"
    )
    assert(types("delta", "a SMALLINT") == "a SMALLINT")
  }

  test("intervals are refused in all formats") {
    for {
      format <- Seq("delta", "iceberg")
      ddl <- Seq("INTERVAL DAY TO SECOND", "ARRAY<INTERVAL YEAR TO MONTH>")
    } error(format, s"c $ddl")
  }

  test("a key cannot have a map or a VARIANT, and other columns can") {
    Seq("VARIANT", "MAP<INT, INT>", "ARRAY<VARIANT>").foreach { ddl =>
      error("delta", s"c $ddl", "c")
      assert(types("delta", s"c $ddl", "id") == s"c $ddl")
    }
  }

  test(
    "a format that does not run on this Spark, or lacks its JAR, is an error that says what to do"
  ) {
    def text(format: LakeFormat, spark: String) =
      intercept[LakeException](format.check(spark, _ => false)).getMessage
    assert(text(
      LakeFormat.Delta,
      "4.3.0"
    ).contains("4.0 and 4.1 and 4.2, and this is Spark 4.3.0"))
    assert(text(LakeFormat.Iceberg, "4.2.1").contains("or the format delta"))
    assert(text(LakeFormat.Delta, "4.1.4").contains("--packages io.delta:delta-spark_4.1_2.13:"))
    assert(
      text(LakeFormat.Iceberg, "4.0.5").contains(
        "--packages org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:"
      )
    )
    LakeFormat.Delta.check("4.2.1", _ => true)
  }

  test("a JAR of Iceberg that is too old is an error that names its version") {
    Seq("1.9.2", "1.10.1", "1.10.0-amzn-0").foreach { version =>
      val error =
        intercept[LakeException](LakeFormat.Iceberg.check("4.1.2", _ => true, version))
      assert(error.getMessage.contains(s"has the version $version, and the job needs 1.11"))
    }
    Seq("1.11.0", "1.11.0-amzn-0", "1.12", "2.0", "unspecified").foreach(
      LakeFormat.Iceberg.check("4.1.2", _ => true, _)
    )
    LakeFormat.Iceberg.check("4.0.0", _ => true)
  }
}
