package io.sparkpgoutput.changes.sql

import org.apache.spark.sql.Row

import io.sparkpgoutput.SparkSessionTests
import io.sparkpgoutput.changes.StreamMessages.{pgType, relation}

class TableSchemasSuite extends SparkSessionTests {
  test("malformed messages define no table") {
    val messages =
      Seq(relation(), pgType(20000, "", "int4").dropRight(1), relation(name = "u").dropRight(1))
    spark
      .createDataFrame(messages.zipWithIndex.map(_.swap))
      .toDF("seq", "data")
      .createOrReplaceTempView("malformed")
    val expected = Seq(Row("public.t"))
    for (options <- Seq("map()", "map('tables', 'public.*')")) {
      val found =
        spark.sql(s"SELECT _table FROM pgoutput_tables('malformed', 'seq', $options)").collect()
      assert(found.toSeq == expected, options)
    }
  }
}
