package org.apache.spark.sql.pgoutput

import org.apache.spark.sql.functions.{col, count_if}
import org.apache.spark.sql.{Column, DataFrame}

import io.sparkpgoutput.SparkSessionTests

class KeyFilterSuite extends SparkSessionTests {
  private val ids = 20000L
  private val changed = "id BETWEEN 5000 AND 14999 AND id % 10 = 3"
  private val changes = 1000L

  /** A table with values as its key. Its rows tell in `there` if their keys are among those of [[keys]]. */
  private def table(values: Seq[String]): DataFrame =
    spark.range(-100, ids)
      .selectExpr(values :+ changed: _*)
      .toDF(names(values) :+ "there": _*)

  private def keys(values: Seq[String]): DataFrame =
    spark.range(ids).where(changed).selectExpr(values: _*).toDF(columns(values): _*)

  private def names(values: Seq[String]) = values.indices.map(index => s"the `key`.$index")
  private def columns(values: Seq[String]) = values.indices.map(index => s"c$index")

  private def filter(keys: DataFrame, hasLimits: Boolean): Option[Column] = {
    val quoted = names(keys.columns.toSeq).map(name => col(s"`${name.replace("`", "``")}`"))
    KeyFilter.of(keys, changes, keys.columns.toSeq, quoted, hasLimits)
  }

  /** How many rows with a key, and how many without, are found. */
  private def found(table: DataFrame, filter: Column): (Long, Long) = {
    val row = table.where(filter).select(count_if(col("there")), count_if(!col("there"))).head()
    (row.getLong(0), row.getLong(1))
  }

  private val keysOfTypes = Seq(
    Seq("CAST(id AS INT)"),
    Seq("id"),
    Seq("CAST(id - 7000.5 AS DECIMAL(12, 2))"),
    Seq("CAST(id * 1e20 AS DECIMAL(38, 2))"),
    Seq("concat(id, ' é')"),
    Seq("date_add(DATE'1970-01-01', CAST(id - 7000 AS INT))"),
    Seq("timestamp_micros((id - 7000) * 86400000123)"),
    Seq("timestamp_micros((id - 7000) * 86400000123)::TIMESTAMP_NTZ"),
    Seq("CAST(CAST(id AS STRING) AS BINARY)"),
    Seq("id % 7 = 0", "CAST(id / 2 AS SMALLINT)", "md5(CAST(id AS STRING))")
  )

  for (values <- keysOfTypes; hasLimits <- Seq(false, true))
    test(s"all rows with a key are found, and few others: $values, limits: $hasLimits") {
      val (right, wrong) = found(table(values), filter(keys(values), hasLimits).get)
      assert(right == changes)
      assert(wrong < ids / 30)
    }

  test("0 and -0 are the same key, and so are all values that are not a number") {
    def values(zero: String, other: String) =
      Seq(s"if(id = 5003, $zero, if(id = 5013, $other, id / 3))")
    val searched = table(values("0.0D", "CAST('NaN' AS DOUBLE)"))
    val made = filter(keys(values("-0.0D", "-CAST('NaN' AS DOUBLE)")), hasLimits = true)
    assert(found(searched, made.get)._1 == changes)
  }

  test("a key is found in a wider type, which has values that the key's type lacks") {
    val searched = table(Seq(s"if($changed, id, id + 4294967296)"))
    val made = filter(keys(Seq("CAST(id AS INT)")), hasLimits = true)
    assert(found(searched, made.get) == ((changes, 0)))
  }

  test("the limits are those of the keys, and the text of the condition has nothing else of them") {
    val made = Seq(false, true).map(filter(keys(Seq("id")), _).get.toString)
    val hash = "may_be_key(xxhash64(TRY_CAST(`the ``key``.0` AS BIGINT)))"
    val limits = "((`the ``key``.0` >= 5003L) AND (`the ``key``.0` <= 14993L))"
    assert(made == Seq(hash, s"($limits AND $hash)"))
  }

  test("without keys there is no condition") {
    assert(filter(keys(Seq("id")).where("false"), hasLimits = true).isEmpty)
  }
}
