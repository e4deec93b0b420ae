package io.sparkpgoutput.optimizer

import org.apache.spark.sql.Row
import org.apache.spark.sql.types.StructType

import io.sparkpgoutput.SparkSessionTests
import io.sparkpgoutput.decode.MessageFilter

class FilterDecodesSuite extends SparkSessionTests {

  /** A logical message with the content of an Insert. */
  private val message =
    BigInt("4D0100000010000007000000000009" + "49000040104E00016E", 16).toByteArray

  test("a condition drops no messages of a decode in the arguments of another one") {
    spark
      .createDataFrame(
        spark.sparkContext.parallelize(Seq(Row(message))),
        StructType.fromDDL("data BINARY")
      )
      .createOrReplaceTempView("nested_messages")
    for (
      (decode, inner) <- Seq(
        "pgoutput_decode(pgoutput_decode(data).content)" -> 1,
        "pgoutput_decode(pgoutput_decode(data).content, pgoutput_decode(data).xid > 0)" -> 2
      )
    ) {
      val query = spark.sql(
        s"SELECT d.type FROM (SELECT $decode AS d FROM nested_messages) WHERE d.type = 'INSERT'"
      )
      val filters = Decodes.in(query).map(_.filter)
      assert(filters.count(_ == MessageFilter(Some(Set("INSERT")), None)) == 1, decode)
      assert(filters.count(_ == MessageFilter.all) == inner, decode)
      assert(query.collect().toSeq == Seq(Row("INSERT")), decode)
    }
  }
}
