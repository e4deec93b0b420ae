package io.sparkpgoutput.lake.target

import org.apache.spark.sql.types._

import org.scalatest.funsuite.AnyFunSuite

import io.sparkpgoutput.changes.TableName
import io.sparkpgoutput.errors.LakeException
import io.sparkpgoutput.lake.catalog.TableShape

class TargetShapesSuite extends AnyFunSuite {
  private val schema = new StructType()
    .add("id", LongType).add("at", TimestampType).add("on", DateType).add("name", StringType)
    .add("price", DecimalType(9, 2)).add("ratio", DoubleType).add("tags", ArrayType(StringType))
    .add("flag", BooleanType).add("raw", BinaryType).add("number", IntegerType)

  private def check(format: String, partition: String, cluster: String): Unit = {
    def list[A](text: String, read: String => Option[Seq[A]]) =
      if (text.isEmpty) Nil else read(text).get
    val shape = TableShape(list(partition, TableShape.partition), list(cluster, TableShape.columns))
    TargetShapes.check(format, TableName("public", "events"), schema, shape)
  }

  private def problem(format: String, partition: String, cluster: String = ""): String = {
    val error = intercept[LakeException](check(format, partition, cluster))
    assert(error.getCondition == "PGOUTPUT_REPLICATE_OPTION")
    assert(error.getMessage.contains("public.events has '"))
    error.getMessage
  }

  test("the shapes that Iceberg can have are accepted") {
    check(
      "iceberg",
      "years(at), months(on), bucket(16, id), truncate(4, name), flag, price",
      "ratio, id"
    )
    check("iceberg", "hours(at), bucket(3, raw), truncate(2, price), on, id", "")
    check("iceberg", "", "id, at, on, name, price")
  }

  test("the shapes that Delta can have are accepted") {
    check("delta", "on, name, price, flag, id", "")
    check("delta", "", "at, on, name, ratio")
  }

  test("an error names the option, the field and the problem") {
    val unknown = problem("iceberg", "days(created)")
    assert(unknown.contains("The option partition.public.events has 'days(created)'"))
    assert(unknown.contains("no column 'created' in the target. Its columns are id, at, on"))
    assert(problem("delta", "", "ID").contains("cluster.public.events has 'ID'"))
    assert(problem("iceberg", "weeks(at)").contains("no function weeks"))
    assert(problem("iceberg", "truncate(name)").contains("a number above 0 and a column"))
    assert(problem("iceberg", "truncate(0, name)").contains("a number above 0"))
    assert(problem("iceberg", "hours(on)").contains("hours does not take the type DATE"))
    Seq("ratio", "tags", "bucket(2, ratio)", "bucket(2, flag)", "truncate(3, at)", "years(id)")
      .foreach(field => assert(problem("iceberg", field).contains("does not take the type")))
    assert(problem("iceberg", "days(at), hours(at)").contains("says the same of the column"))
    assert(problem("iceberg", "id, id").contains("says the same of the column"))
    assert(problem("iceberg", "", "tags").contains("cannot sort by the type ARRAY<STRING>"))
    assert(problem("delta", "days(at)").contains("only by columns"))
    Seq("at", "ratio", "tags", "raw")
      .foreach(field => assert(problem("delta", field).contains("exact partitions by the type")))
    assert(problem("delta", "", "flag").contains("only by columns with statistics"))
    assert(problem("delta", "", "id, at, on, name, price").contains("4 columns at most"))
    assert(problem("delta", "", "id, id").contains("twice"))
    assert(problem("delta", "on", "id").contains("has no partitions"))
  }
}
