package io.sparkpgoutput.optimizer

import org.apache.spark.sql.functions.{col, explode, expr}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{DataFrame, Row}

import io.sparkpgoutput.SparkSessionTests

class ShareDecodesSuite extends SparkSessionTests {
  private val insert = BigInt("49000040104E00016E", 16).toByteArray
  private val decode = "pgoutput_decode(data)"

  /** Rows that Spark reads when the query runs, and not when it optimizes the query. */
  private def table(schema: String, rows: Row*): DataFrame =
    spark.createDataFrame(spark.sparkContext.parallelize(rows), StructType.fromDDL(schema))

  test("a generator drops its own columns if a join below it has one more column") {
    val messages = table("seq INT, data BINARY", Row(1, insert))
    val tagged = table("rseq INT, k STRING, tags ARRAY<STRING>", Row(1, "key", Seq("b", "a")))
    val found = messages
      .join(tagged, expr("seq = rseq"))
      .where(s"$decode.type = 'INSERT'")
      .withColumn("tag", explode(col("tags")))
      .drop("tags")
      .orderBy("tag")
    assert(found.columns.toSeq == Seq("seq", "data", "rseq", "k", "tag"))
    assert(found.collect().map(row => (row(3), row(4))).toSeq == Seq("key" -> "a", "key" -> "b"))
  }
}
