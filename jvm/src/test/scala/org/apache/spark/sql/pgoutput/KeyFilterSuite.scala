package org.apache.spark.sql.pgoutput

import java.nio.file.Files
import java.util.TimeZone

import org.apache.spark.sql.functions.{col, count_if}
import org.apache.spark.sql.{Column, DataFrame}

import io.sparkpgoutput.{SparkSessionTests, TakesLong}

class KeyFilterSuite extends SparkSessionTests {
  private val ids = 20000L
  private val changed = "id BETWEEN 5000 AND 14999 AND id % 10 = 3"
  private val changes = 1000L

  /** A table with these values as its key. `there` is true in the rows whose keys [[keys]] has. */
  private def table(values: Seq[String]): DataFrame =
    spark.range(-100, ids)
      .selectExpr(values :+ changed: _*)
      .toDF(names(values) :+ "there": _*)

  private def keys(values: Seq[String]): DataFrame =
    spark.range(ids).where(changed).selectExpr(values: _*).toDF(columns(values): _*)

  private def names(values: Seq[String]) = values.indices.map(index => s"the `key`.$index")
  private def columns(values: Seq[String]) = values.indices.map(index => s"c$index")

  private def filter(keys: DataFrame, table: DataFrame, hasLimits: Boolean): Option[Column] = {
    val columns = names(keys.columns.toSeq).map { name =>
      col(s"`${name.replace("`", "``")}`") -> table.schema(name).dataType
    }
    KeyFilter.of(keys, changes, keys.columns.toSeq, columns, hasLimits)
  }

  /** For each filter, how many rows it finds: those with one of the [[keys]], and others. */
  private def found(table: DataFrame, filters: Seq[Column]): Seq[(Long, Long)] = {
    val counts = filters.flatMap(filter =>
      Seq(col("there"), !col("there")).map(isThere => count_if(filter && isThere))
    )
    val row = table.select(counts: _*).head()
    filters.indices.map(index => (row.getLong(2 * index), row.getLong(2 * index + 1)))
  }

  /** The same rows, in the memory of the driver. */
  private def local(rows: DataFrame): DataFrame = LocalRows.toDataFrame(
    spark,
    RowsOfRdd.of(rows).map(_.copy()).collect().toIndexedSeq,
    rows.schema
  )

  private val keysOfTypes = Seq(
    Seq("CAST(id AS INT)"),
    Seq("CAST(id - 7000.5 AS DECIMAL(12, 2))"),
    Seq("concat(id, ' é')"),
    Seq("date_add(DATE'1970-01-01', CAST(id - 7000 AS INT))"),
    Seq("timestamp_micros((id - 7000) * 86400000123)"),
    Seq("id % 7 = 0", "CAST(id / 2 AS SMALLINT)", "md5(CAST(id AS STRING))")
  )

  /** Types that are like one of those above. */
  private val otherTypes = Seq(
    Seq("id"),
    Seq("CAST(id * 1e20 AS DECIMAL(38, 2))"),
    Seq("timestamp_micros((id - 7000) * 86400000123)::TIMESTAMP_NTZ"),
    Seq("CAST(CAST(id AS STRING) AS BINARY)")
  )

  for (values <- keysOfTypes ++ otherTypes)
    test(
      s"all rows with a key are found, and few others: $values",
      TakesLong.when(otherTypes.contains(values)): _*
    ) {
      val searched = table(values)
      val cases = for {
        rows <- Seq(keys(values), local(keys(values)))
        hasLimits <- Seq(false, true)
      } yield (rows, hasLimits)
      val filters = cases.map { case (rows, hasLimits) => filter(rows, searched, hasLimits).get }
      for (((right, wrong), filter) <- found(searched, filters).zip(filters)) {
        assert(right == changes, filter)
        assert(wrong < ids / 30, filter)
      }
    }

  test("0 and -0 are the same key, and so are all NaNs") {
    def values(zero: String, other: String) =
      Seq(s"if(id = 5003, $zero, if(id = 5013, $other, id / 3))")
    val searched = table(values("0.0D", "CAST('NaN' AS DOUBLE)"))
    val rows = keys(values("-0.0D", "-CAST('NaN' AS DOUBLE)"))
    val filters = Seq(rows, local(rows)).map(filter(_, searched, hasLimits = true).get)
    assert(found(searched, filters).map(_._1) == Seq(changes, changes))
  }

  private val widened = Seq(
    ("CAST(id AS INT)", "id", "id + 4294967296"),
    ("CAST(id AS FLOAT)", "CAST(id AS DOUBLE)", "CAST(id + 1e300 AS DOUBLE)"),
    (
      "CAST(id - 7000.5 AS DECIMAL(9, 1))",
      "CAST(id - 7000.5 AS DECIMAL(12, 1))",
      "CAST(id + 4e9 AS DECIMAL(12, 1))"
    )
  )

  for ((narrow, wide, larger) <- widened)
    test(s"a key is found in a wider type, beside values too large for the key: $narrow") {
      val searched = table(Seq(s"if($changed, $wide, $larger)"))
      val both = Seq(keys(Seq(narrow)), local(keys(Seq(narrow))))
      val filters = both.map(filter(_, searched, hasLimits = true).get)
      assert(found(searched, filters) == Seq((changes, 0), (changes, 0)))
    }

  test("there is no filter if equal values of key and column can have different hashes") {
    val others = Seq(
      "id" -> "CAST(id AS DOUBLE)",
      "CAST(id AS DECIMAL(9, 1))" -> "CAST(id AS DECIMAL(12, 2))",
      "timestamp_micros(id)" -> "timestamp_micros(id)::TIMESTAMP_NTZ",
      "CAST(id AS STRING)" -> "CAST(id AS STRING) COLLATE UTF8_LCASE",
      "CAST(id AS STRING) COLLATE UTF8_LCASE" -> "CAST(id AS STRING) COLLATE UTF8_LCASE",
      "array(CAST(id AS STRING) COLLATE UTF8_LCASE)" ->
        "array(CAST(id AS STRING) COLLATE UTF8_LCASE)"
    )
    for ((key, column) <- others)
      assert(filter(keys(Seq(key)), table(Seq(column)), hasLimits = false).isEmpty, key)
  }

  test("the text of a filter shows the least and the greatest key, and no other key") {
    val searched = table(Seq("id"))
    def made(keys: DataFrame) = Seq(false, true).map(filter(keys, searched, _).get.toString)
    val hash = "may_be_key(xxhash64(TRY_CAST(`the ``key``.0` AS BIGINT)))"
    val limits = "((`the ``key``.0` >= 5003L) AND (`the ``key``.0` <= 14993L))"
    for (rows <- Seq(keys(Seq("id")), local(keys(Seq("id")))))
      assert(made(rows) == Seq(hash, s"($limits AND $hash)"))
  }

  test("types whose limits could leave out a file with a key have no limits") {
    for (values <- Seq("CAST(id AS DECIMAL(9, 0))", "timestamp_micros(id)")) {
      val made = filter(keys(Seq(values)), table(Seq(values)), hasLimits = true).get.toString
      assert(made.startsWith("may_be_key("), made)
    }
  }

  test("Parquet leaves out no row with a key, also on the days that java.sql.Date lacks") {
    val zone = TimeZone.getDefault
    try
      for {
        (name, first, days) <- Seq(("UTC", "1582-10-05", 10), ("Pacific/Apia", "2011-12-30", 1))
      } {
        TimeZone.setDefault(TimeZone.getTimeZone(name))
        val day = Seq(s"date_add(DATE'$first', CAST(id AS INT))")
        val folder = Files.createTempDirectory("days").resolve("days").toString
        spark.range(days.toLong).selectExpr(day: _*).toDF(names(day): _*).write.parquet(folder)
        val searched = spark.read.parquet(folder)
        for (id <- Set(0, days / 2, days - 1)) {
          val key = spark.range(id.toLong, id + 1L).selectExpr(day: _*).toDF(columns(day): _*)
          val found = searched.where(filter(key, searched, hasLimits = true).get)
            .selectExpr(s"date_diff(`the ``key``.0`, DATE'$first')").collect().map(_.getInt(0))
          assert(found.contains(id), s"$name: $id")
        }
      }
    finally TimeZone.setDefault(zone)
  }

  test("without keys there is no filter") {
    val none = keys(Seq("id")).where("false")
    for (rows <- Seq(none, local(none)))
      assert(filter(rows, table(Seq("id")), hasLimits = true).isEmpty)
  }
}
