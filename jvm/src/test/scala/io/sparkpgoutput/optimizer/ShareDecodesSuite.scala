package io.sparkpgoutput.optimizer

import scala.util.Try

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

  private def query(data: Array[Byte], condition: String): DataFrame = table(
    "id BIGINT NOT NULL, n BIGINT, text STRING, headers MAP<STRING, STRING>, data BINARY",
    Row(1L, null, null, Map.empty, data)
  ).where(condition).selectExpr(s"$decode.lsn")

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

  test("a decode is not evaluated if another part of its expression is NULL") {
    val malformed = Array[Byte](-1)
    val conditions = Seq(
      s"headers['type'] = $decode.type",
      s"n < $decode.xid",
      s"$decode.xid % n = 1",
      s"try_divide($decode.xid, 0) > 1",
      s"pmod($decode.xid, n) = 1",
      s"substring(text, length($decode.type), 1) = 'a'",
      s"locate($decode.type, 'INSERT', CAST(n AS INT)) > 1",
      s"replace(text, 'a', $decode.type) = 'a'",
      s"concat(text, $decode.type) = 'a'",
      s"elt(CAST(id + 1 AS INT), $decode.type, text) = 'a'",
      s"zip_with(split(text, ','), split($decode.type, ','), (a, b) -> a) = array('a')"
    )
    def fails(condition: String) = Try(query(malformed, condition).collect()).isFailure
    assert(conditions.filter(fails) == Nil)
  }

  test("a decode of what a column without a row has instead is evaluated above an outer join") {
    table("id BIGINT, x BIGINT", Row(1L, 1L)).createOrReplaceTempView("ids")
    table("data BINARY", Row(insert)).createOrReplaceTempView("messages")
    val decoded = "pgoutput_decode(coalesce(data, X'45'))"
    val onKey = s"SELECT $decoded.type FROM ids LEFT JOIN messages ON x = $decoded.xid"
    val named = s"""SELECT d.type, $decoded.type FROM ids
      LEFT JOIN (SELECT data, $decoded AS d FROM messages) ON x = d.xid"""
    assert(spark.sql(onKey).collect().toSeq == Seq(Row("STREAM_STOP")))
    assert(spark.sql(named).collect().toSeq == Seq(Row(null, "STREAM_STOP")))
  }

  test("a decode is not evaluated if an aggregate function uses another row") {
    val malformed = Array[Byte](-1)
    val messages =
      table("seq INT, data BINARY", Row(1, insert), Row(2, malformed)).coalesce(1)
    val first = Seq("type", "lsn").map(field => expr(s"first($decode.$field)"))
    assert(messages.agg(first.head, first.last).collect().toSeq == Seq(Row("INSERT", null)))
    val min = Seq("type", "lsn").map(field => expr(s"min_by($decode.$field, seq)"))
    assert(messages.agg(min.head, min.last).collect().toSeq == Seq(Row("INSERT", null)))
    val counts = Seq("type", "lsn").map(field => expr(s"count($decode.$field IS NULL, 1)"))
    assert(messages.agg(counts.head, counts.last).collect().toSeq == Seq(Row(2L, 2L)))
  }

  test("a decode is shared if its expression always evaluates it") {
    for (
      condition <- Seq(
        s"$decode.type = headers['type']",
        s"'INSERT' = $decode.type",
        s"id = $decode.relation_id",
        s"headers['type'] <=> $decode.type",
        s"$decode.relation_id % 2 = 0",
        s"substring($decode.type, CAST(n AS INT), 1) = 'I'",
        s"concat('an ', $decode.type) = 'an INSERT'",
        s"xxhash64(n, $decode.type) <> 0",
        s"greatest(n, $decode.relation_id) > 1"
      )
    ) assert(Decodes.in(query(insert, condition)).length == 1, condition)
    val other = "pgoutput_decode(coalesce(data, X'45'))"
    val messages = table("data BINARY", Row(insert)).where(s"$other.type = 'INSERT'")
    assert(Decodes.in(messages.selectExpr(s"$other.lsn")).length == 1)
  }
}
